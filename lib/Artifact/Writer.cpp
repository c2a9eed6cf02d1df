// SPDX-License-Identifier: Apache-2.0
// Lays out sections, digests and header, and commits the file in one rename.
#include "autopar/Artifact/Writer.h"

#include "Encode.h"
#include "Format.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/Base/OutputFile.h"

#include <cstring>

namespace autopar::artifact {
namespace {

struct Section {
  SectionKind kind;
  int32_t rankClass;
  std::vector<uint8_t> bytes;
};

/// As the driver takes it: with a zero byte at the end.
std::vector<uint8_t> terminated(const std::string &ptx) {
  std::vector<uint8_t> bytes(ptx.begin(), ptx.end());
  if (!ptx.empty())
    bytes.push_back(0);
  return bytes;
}

Status verifyContents(const Contents &contents) {
  std::vector<const Program *> programs;
  for (size_t i = 0; i < contents.classes.size(); ++i) {
    const RankClass &rankClass = contents.classes[i];
    AUTOPAR_RETURN_IF_ERROR(verifyProgram(rankClass.program, contents.constants.size())
                                .at("class " + std::to_string(i)));
    AUTOPAR_RETURN_IF_ERROR(verifyNames(rankClass.program).at("class " + std::to_string(i)));
    std::vector<uint8_t> ptx = terminated(rankClass.ptx);
    AUTOPAR_RETURN_IF_ERROR(
        verifyKernels(rankClass.program, contents.target, {rankClass.kernels, ptx, rankClass.cubin})
            .at("class " + std::to_string(i)));
    programs.push_back(&rankClass.program);
  }
  if (contents.target.architecture.size() >= 32 || contents.target.features.size() >= 32)
    return Status::badInput("target name is longer than 31 bytes");
  return verifyRanks(contents.ranks, programs);
}

uint64_t requiredFlags(const Program &program) {
  uint64_t flags = program.timetable.size() > 1 ? kSeveralRows : 0;
  for (const Entry &entry : program.entries)
    for (const Instruction &instruction : entry.instructions)
      if (auto *attention = std::get_if<Attention>(&instruction.payload))
        flags |= (attention->shardValue >= 0 ? kPartsOfRows : 0) |
                 (attention->geometry.window > 0 ? kWindows : 0);
      else if (auto *product = std::get_if<GroupedProduct>(&instruction.payload))
        flags |= product->maker ? kMadeMatrices : 0;
  return flags;
}

std::vector<Section> collectSections(const Contents &contents) {
  auto text = [](const std::string &s) { return std::vector<uint8_t>(s.begin(), s.end()); };
  std::vector<Section> sections;
  for (size_t i = 0; i < contents.classes.size(); ++i)
    sections.push_back(
        {SectionKind::Program, int32_t(i), encodeProgram(contents.classes[i].program)});
  sections.push_back({SectionKind::Ranks, -1, encodeRanks(contents.ranks)});
  for (size_t i = 0; i < contents.classes.size(); ++i)
    if (!contents.classes[i].kernels.empty())
      sections.push_back({SectionKind::Kernels, int32_t(i), contents.classes[i].kernels});
  for (size_t i = 0; i < contents.classes.size(); ++i) {
    if (!contents.classes[i].ptx.empty())
      sections.push_back({SectionKind::Ptx, int32_t(i), terminated(contents.classes[i].ptx)});
    if (!contents.classes[i].cubin.empty())
      sections.push_back({SectionKind::Cubin, int32_t(i), contents.classes[i].cubin});
  }
  if (!contents.constants.empty())
    sections.push_back({SectionKind::Constants, -1, contents.constants});
  if (!contents.plan.empty())
    sections.push_back({SectionKind::Plan, -1, text(contents.plan)});
  if (!contents.source.empty())
    sections.push_back({SectionKind::Source, -1, text(contents.source)});
  return sections;
}

} // namespace

Result<std::vector<uint8_t>> serialize(const Contents &contents) {
  if (Status status = verifyContents(contents); !status.isOk())
    return Status::internal("the artifact's contents are wrong: " + status.message());
  std::vector<Section> sections = collectSections(contents);
  std::vector<TocEntry> toc;
  uint64_t tocBytes = sections.size() * sizeof(TocEntry);
  uint64_t end = kHeaderBytes + tocBytes;
  for (const Section &section : sections) {
    TocEntry entry{};
    entry.kind = uint32_t(section.kind);
    entry.rankClass = section.rankClass;
    entry.offset = alignUp(end);
    entry.bytes = section.bytes.size();
    entry.alignment = kAlignment;
    Digest digest = Digest::of(section.bytes.data(), section.bytes.size());
    std::memcpy(entry.digest, digest.bytes.data(), 16);
    end = entry.offset + entry.bytes;
    toc.push_back(entry);
  }

  std::vector<uint8_t> file(end, 0);
  std::memcpy(file.data() + kHeaderBytes, toc.data(), tocBytes);
  for (size_t i = 0; i < sections.size(); ++i)
    if (!sections[i].bytes.empty())
      std::memcpy(file.data() + toc[i].offset, sections[i].bytes.data(), sections[i].bytes.size());

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.major = kMajor;
  header.minor = kMinor;
  header.headerBytes = kHeaderBytes;
  header.sectionCount = uint32_t(sections.size());
  header.fileBytes = end;
  header.tocOffset = kHeaderBytes;
  header.tocBytes = tocBytes;
  std::memcpy(header.tocDigest, Digest::of(file.data() + kHeaderBytes, tocBytes).bytes.data(), 16);
  std::memcpy(header.architecture, contents.target.architecture.data(),
              contents.target.architecture.size());
  std::memcpy(header.features, contents.target.features.data(), contents.target.features.size());
  for (const RankClass &rankClass : contents.classes)
    header.requiredFlags |= requiredFlags(rankClass.program);
  std::memcpy(file.data(), &header, sizeof(header));
  std::memcpy(file.data() + kHeaderDigestAt, Digest::of(file.data(), kHeaderDigestAt).bytes.data(),
              16);
  return file;
}

Status writeArtifact(const Contents &contents, const std::string &path) {
  auto bytes = serialize(contents);
  if (!bytes)
    return bytes.status();
  return writeWholeFile(path, {reinterpret_cast<const char *>(bytes->data()), bytes->size()});
}

} // namespace autopar::artifact
