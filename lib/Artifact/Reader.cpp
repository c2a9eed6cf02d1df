// SPDX-License-Identifier: Apache-2.0
// Opens and verifies compiled.bin. The order of checks is the order of trust: size, header digest,
// table digest, layout of sections, section digests, FlatBuffers structure, semantics.
#include "autopar/Artifact/Reader.h"

#include "Encode.h"
#include "Format.h"
#include "autopar/Artifact/Verify.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::artifact {

const char *sectionName(SectionKind kind) {
  switch (kind) {
  case SectionKind::Program:
    return "PROGRAM";
  case SectionKind::Ranks:
    return "RANKS";
  case SectionKind::Kernels:
    return "KERNELS";
  case SectionKind::Constants:
    return "CONSTANTS";
  case SectionKind::Plan:
    return "PLAN";
  case SectionKind::Source:
    return "SOURCE";
  case SectionKind::Ptx:
    return "PTX";
  case SectionKind::Cubin:
    return "CUBIN";
  }
  return "";
}

struct Reader::Image {
  std::string path;
  std::string folder;
  std::span<const uint8_t> bytes;
  void *mapping = nullptr;
  std::vector<uint8_t> copy;

  Digest digest;
  Target target;
  std::vector<SectionInfo> sections;
  std::vector<Program> programs;
  std::vector<CompiledKernels> kernels; ///< per program
  std::vector<RankTable> ranks;
  std::span<const uint8_t> constants, plan, source;

  Image() = default;
  Image(const Image &) = delete;
  ~Image() {
    if (mapping)
      munmap(mapping, bytes.size());
  }

  Status verify();

private:
  Status readHeader(Header &header);
  Status readSections(const Header &header, std::vector<TocEntry> &toc);
  Status takeSection(const TocEntry &entry, const SectionInfo &info);
  Status verifyMeaning(uint64_t requiredFlags);
};

namespace {

bool isZero(std::span<const uint8_t> bytes) {
  for (uint8_t byte : bytes)
    if (byte)
      return false;
  return true;
}

Digest digestFrom(const uint8_t *bytes) {
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes, 16);
  return digest;
}

std::string describe(const TocEntry &entry) {
  std::string text = sectionName(SectionKind(entry.kind));
  text = text.empty() ? "section of unknown kind " + std::to_string(entry.kind) : "section " + text;
  return entry.rankClass < 0 ? text : text + " of class " + std::to_string(entry.rankClass);
}

constexpr const char *kDamaged = "the file is damaged; copy it again or compile it again";

} // namespace

Status Reader::Image::readHeader(Header &header) {
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return Status::badInput("header: not a compiled.bin (the first bytes are not AUTOPAR)");
  if (bytes.size() < kHeaderBytes)
    return Status::badInput("header: the file ends after " + std::to_string(bytes.size()) +
                            " bytes; " + kDamaged);
  std::memcpy(&header, bytes.data(), sizeof(header));
  // The version stands before the digest check: another major version may lay out its header anew.
  digest = digestFrom(bytes.data() + kHeaderDigestAt);
  bool isIntact = Digest::of(bytes.data(), kHeaderDigestAt) == digest;
  if (header.major != kMajor && (isIntact || header.headerBytes != kHeaderBytes))
    return Status::badInput("header: format version " + std::to_string(header.major) + "." +
                            std::to_string(header.minor) + ", this program reads " +
                            std::to_string(kMajor) + ".x; compile the model again");
  if (!isIntact)
    return Status::badInput(std::string("header: the digest does not match; ") + kDamaged);
  if (header.requiredFlags & ~kKnownFlags)
    return Status::badInput(
        "header: the file needs features that this program does not know; use a newer "
        "autopar-run");
  if (header.headerBytes != kHeaderBytes || header.tocOffset != kHeaderBytes ||
      header.sectionCount > kMaxSections ||
      header.tocBytes != header.sectionCount * sizeof(TocEntry) || header.architecture[31] ||
      header.features[31] ||
      !isZero(bytes.subspan(sizeof(Header), kHeaderDigestAt - sizeof(Header))))
    return Status::badInput("header: fields contradict each other");
  if (header.fileBytes != bytes.size())
    return Status::badInput("header: the file has " + std::to_string(bytes.size()) + " bytes, " +
                            std::to_string(header.fileBytes) + " were written; " + kDamaged);
  if (header.tocBytes > bytes.size() - kHeaderBytes)
    return Status::badInput("header: the table of contents lies outside the file");
  target = {header.architecture, header.features};
  return Status::ok();
}

Status Reader::Image::readSections(const Header &header, std::vector<TocEntry> &toc) {
  if (Digest::of(bytes.data() + kHeaderBytes, header.tocBytes) != digestFrom(header.tocDigest))
    return Status::badInput(std::string("table of contents: the digest does not match; ") +
                            kDamaged);
  toc.resize(header.sectionCount);
  if (!toc.empty())
    std::memcpy(toc.data(), bytes.data() + kHeaderBytes, header.tocBytes);
  uint64_t end = kHeaderBytes + header.tocBytes;
  for (const TocEntry &entry : toc) {
    // Sections follow each other without gap but zero padding, so nothing overlaps and nothing
    // hides.
    if (entry.offset != alignUp(end) || entry.alignment != kAlignment ||
        !isZero({entry.reserved, sizeof(entry.reserved)}) || entry.offset > bytes.size() ||
        entry.bytes > bytes.size() - entry.offset)
      return Status::badInput("table of contents: " + describe(entry) +
                              " has an impossible place or size");
    if (!isZero(bytes.subspan(end, entry.offset - end)))
      return Status::badInput("padding before " + describe(entry) + ": bytes are not zero; " +
                              kDamaged);
    end = entry.offset + entry.bytes;
    if (Digest::of(bytes.data() + entry.offset, entry.bytes) != digestFrom(entry.digest))
      return Status::badInput(describe(entry) + ": the digest does not match; " + kDamaged);
  }
  if (end != bytes.size())
    return Status::badInput("table of contents: the file has bytes after the last section");
  return Status::ok();
}

Status Reader::Image::takeSection(const TocEntry &entry, const SectionInfo &info) {
  auto section = bytes.subspan(entry.offset, entry.bytes);
  bool perClass = false;
  switch (SectionKind(entry.kind)) {
  case SectionKind::Program: {
    perClass = true;
    if (entry.rankClass != int32_t(programs.size()))
      return Status::badInput("classes are not numbered 0, 1, ...");
    auto program = decodeProgram(section);
    if (!program)
      return program.status();
    programs.push_back(program.take());
    kernels.emplace_back();
    break;
  }
  case SectionKind::Ranks: {
    auto table = decodeRanks(section);
    if (!table)
      return table.status();
    ranks = table.take();
    break;
  }
  case SectionKind::Kernels:
  case SectionKind::Ptx:
  case SectionKind::Cubin: {
    perClass = true;
    if (entry.rankClass < 0 || size_t(entry.rankClass) >= kernels.size())
      return Status::badInput("there is no program for this class");
    CompiledKernels &code = kernels[size_t(entry.rankClass)];
    (SectionKind(entry.kind) == SectionKind::Kernels ? code.object
     : SectionKind(entry.kind) == SectionKind::Ptx   ? code.ptx
                                                     : code.cubin) = section;
    break;
  }
  case SectionKind::Constants:
    constants = section;
    break;
  case SectionKind::Plan:
    plan = section;
    break;
  case SectionKind::Source:
    source = section;
    break;
  default:
    return Status::badInput("unknown kind; use a newer autopar-run");
  }
  if (!perClass && entry.rankClass != -1)
    return Status::badInput("belongs to all classes, but names one");
  for (const SectionInfo &other : sections)
    if (other.name == info.name && other.rankClass == info.rankClass)
      return Status::badInput("stands in the file twice");
  return Status::ok();
}

Status Reader::Image::verifyMeaning(uint64_t requiredFlags) {
  std::vector<const Program *> all;
  for (size_t i = 0; i < programs.size(); ++i) {
    std::string section = "section PROGRAM of class " + std::to_string(i);
    if (programs[i].timetable.size() > 1 && !(requiredFlags & kSeveralRows))
      return Status::badInput("timetable: has several rows, written when each waited for all of "
                              "the one before; compile the model again")
          .at(section);
    AUTOPAR_RETURN_IF_ERROR(verifyProgram(programs[i], constants.size()).at(section));
    AUTOPAR_RETURN_IF_ERROR(verifyNames(programs[i]).at(section));
    AUTOPAR_RETURN_IF_ERROR(verifyKernels(programs[i], target, kernels[i]).at(section));
    all.push_back(&programs[i]);
  }
  return verifyRanks(ranks, all).at("section RANKS");
}

Status Reader::Image::verify() {
  Header header;
  std::vector<TocEntry> toc;
  AUTOPAR_RETURN_IF_ERROR(readHeader(header));
  AUTOPAR_RETURN_IF_ERROR(readSections(header, toc));
  for (const TocEntry &entry : toc) {
    SectionInfo info{sectionName(SectionKind(entry.kind)), entry.rankClass, entry.offset,
                     entry.bytes, digestFrom(entry.digest)};
    AUTOPAR_RETURN_IF_ERROR(takeSection(entry, info).at(describe(entry)));
    sections.push_back(std::move(info));
  }
  return verifyMeaning(header.requiredFlags);
}

Result<Reader> Reader::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return Status::noInput("cannot open " + path + ": " + std::strerror(errno));
  auto image = std::make_shared<Image>();
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::noInput("cannot open " + path + ": not a regular file");
  }
  if (info.st_size > 0) {
    void *mapping = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED) {
      close(fd);
      return Status::noInput("cannot map " + path + ": " + std::strerror(errno));
    }
    image->mapping = mapping;
    image->bytes = {static_cast<const uint8_t *>(mapping), size_t(info.st_size)};
  }
  close(fd);
  image->path = path;
  size_t slash = path.rfind('/');
  image->folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (Status status = image->verify(); !status.isOk())
    return status.at(path);
  // Verification touched every page; they come back from the page cache when they are needed, and
  // until then do not count as this process' memory.
  if (image->mapping)
    madvise(image->mapping, image->bytes.size(), MADV_DONTNEED);
  return Reader(image);
}

Result<Reader> Reader::fromBytes(std::span<const uint8_t> bytes, const std::string &name) {
  auto image = std::make_shared<Image>();
  image->copy.assign(bytes.begin(), bytes.end());
  image->bytes = image->copy;
  image->path = name;
  image->folder = ".";
  if (Status status = image->verify(); !status.isOk())
    return status.at(name);
  return Reader(image);
}

Reader::Reader(std::shared_ptr<const Image> image) : image(std::move(image)) {}

const std::string &Reader::path() const { return image->path; }
const std::string &Reader::folder() const { return image->folder; }
Digest Reader::digest() const { return image->digest; }
const Target &Reader::target() const { return image->target; }
int32_t Reader::worldSize() const { return int32_t(image->ranks.size()); }
int32_t Reader::classCount() const { return int32_t(image->programs.size()); }
const Program &Reader::program(int32_t rankClass) const {
  return image->programs[size_t(rankClass)];
}
const RankTable &Reader::rank(int32_t rank) const { return image->ranks[size_t(rank)]; }
const Program &Reader::programOfRank(int32_t rank) const {
  return program(image->ranks[size_t(rank)].rankClass);
}
std::vector<const Port *> Reader::ports() const {
  std::vector<const Port *> ports;
  std::set<std::string_view> names;
  for (const Program &program : image->programs)
    for (const Port &port : program.ports)
      if (names.insert(port.name).second)
        ports.push_back(&port);
  return ports;
}
std::span<const uint8_t> Reader::kernels(int32_t rankClass) const {
  return image->kernels[size_t(rankClass)].object;
}
std::string_view Reader::ptx(int32_t rankClass) const {
  std::span<const uint8_t> ptx = image->kernels[size_t(rankClass)].ptx;
  if (ptx.empty())
    return {};
  return {reinterpret_cast<const char *>(ptx.data()), ptx.size() - 1};
}
std::span<const uint8_t> Reader::cubin(int32_t rankClass) const {
  return image->kernels[size_t(rankClass)].cubin;
}
std::span<const uint8_t> Reader::constants() const { return image->constants; }
std::string_view Reader::plan() const {
  return {reinterpret_cast<const char *>(image->plan.data()), image->plan.size()};
}
std::string_view Reader::source() const {
  return {reinterpret_cast<const char *>(image->source.data()), image->source.size()};
}
const std::vector<SectionInfo> &Reader::sections() const { return image->sections; }

} // namespace autopar::artifact
