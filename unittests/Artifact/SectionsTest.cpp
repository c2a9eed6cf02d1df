// SPDX-License-Identifier: Apache-2.0
// Headers and tables of contents that are wrong under right digests, as another program could write
// them: each refusal, whole.
#include "Format.h"
#include "SampleArtifact.h"
#include "autopar/Artifact/Reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

namespace {

/// The parts of a file that a test may change before the digests are made anew.
struct File {
  Header header;
  std::vector<TocEntry> toc;
  std::vector<uint8_t> bytes;
};

const char *const kDamaged = "; the file is damaged; copy it again or compile it again";

Contents sample() { return sampleContents(2, {1, 2, 3}, "weights.bin"); }

std::string problem(const std::function<void(File &)> &spoil, bool isSealed = true,
                    const Contents &contents = sample()) {
  File file;
  file.bytes = *serialize(contents);
  std::memcpy(&file.header, file.bytes.data(), sizeof(Header));
  file.toc.resize(file.header.sectionCount);
  std::memcpy(file.toc.data(), file.bytes.data() + kHeaderBytes, file.header.tocBytes);
  spoil(file);
  auto digest = [](const void *data, size_t size, void *to) {
    std::memcpy(to, Digest::of(data, size).bytes.data(), 16);
  };
  size_t tocBytes = file.toc.size() * sizeof(TocEntry);
  if (isSealed)
    digest(file.toc.data(), tocBytes, file.header.tocDigest);
  std::memcpy(file.bytes.data() + kHeaderBytes, file.toc.data(), tocBytes);
  std::memcpy(file.bytes.data(), &file.header, sizeof(Header));
  digest(file.bytes.data(), kHeaderDigestAt, file.bytes.data() + kHeaderDigestAt);
  auto reader = Reader::fromBytes(file.bytes, "f");
  return reader ? "" : reader.status().message();
}

TEST(Sections, Headers) {
  EXPECT_EQ(problem([](File &f) { EXPECT_EQ(f.header.requiredFlags, 0); }), "");
  EXPECT_EQ(problem([](File &f) { f.header.magic[0] = 'B'; }),
            "f: header: not a compiled.bin (the first bytes are not AUTOPAR)");
  EXPECT_EQ(problem([](File &f) { f.header.major = 2; }),
            "f: header: format version 2.3, this program reads 1.x; compile the model again");
  EXPECT_EQ(problem([](File &f) { f.header.requiredFlags = 16; }),
            "f: header: the file needs features that this program does not know; use a newer "
            "autopar-run");
  EXPECT_EQ(problem([](File &f) { f.header.tocOffset = 8192; }),
            "f: header: fields contradict each other");
  EXPECT_EQ(problem([](File &f) {
              f.header.fileBytes = 8193;
              f.bytes.resize(8192);
            }),
            "f: header: the file has 8192 bytes, 8193 were written" + std::string(kDamaged));
  std::vector<uint8_t> bytes = *serialize(sampleContents(2, {1}, "weights.bin"));
  bytes[20] ^= 1;
  EXPECT_EQ(Reader::fromBytes(bytes, "f").status().message(),
            "f: header: the digest does not match" + std::string(kDamaged));
  bytes.resize(100);
  EXPECT_EQ(Reader::fromBytes(bytes, "f").status().message(),
            "f: header: the file ends after 100 bytes" + std::string(kDamaged));
  EXPECT_EQ(Reader::open("/").status().message(), "cannot open /: not a regular file");
}

TEST(Sections, TimetablesOfSeveralRowsAreOnesThatDoNotWaitForEachOther) {
  Contents contents = sample();
  for (RankClass &each : contents.classes)
    each.program.timetable.push_back(each.program.timetable.front());
  auto keep = [](File &f) { EXPECT_EQ(f.header.requiredFlags, kSeveralRows); };
  EXPECT_EQ(problem(keep, true, contents), "");
  EXPECT_EQ(problem([](File &f) { f.header.requiredFlags = 0; }, true, contents),
            "f: section PROGRAM of class 0: timetable: has several rows, written when each waited "
            "for all of the one before; compile the model again");
}

TEST(Sections, TablesOfContents) {
  EXPECT_EQ(problem([](File &f) { f.toc[0].bytes -= 1; }, /*isSealed=*/false),
            "f: table of contents: the digest does not match" + std::string(kDamaged));
  EXPECT_EQ(problem([](File &f) {
              f.header.sectionCount = 1 << 19;
              f.header.tocBytes = f.header.sectionCount * sizeof(TocEntry);
            }),
            "f: header: the table of contents lies outside the file");
  EXPECT_EQ(problem([](File &f) { f.toc[0].offset += 4096; }),
            "f: table of contents: section PROGRAM of class 0 has an impossible place or size");
  EXPECT_EQ(problem([](File &f) { f.bytes[f.toc[1].offset - 1] = 1; }),
            "f: padding before section RANKS: bytes are not zero" + std::string(kDamaged));
  EXPECT_EQ(problem([](File &f) { f.bytes[f.toc[1].offset] ^= 1; }),
            "f: section RANKS: the digest does not match" + std::string(kDamaged));
  EXPECT_EQ(problem([](File &f) {
              f.header.sectionCount -= 1;
              f.header.tocBytes -= sizeof(TocEntry);
              f.toc.pop_back();
              std::memset(f.bytes.data() + kHeaderBytes + f.header.tocBytes, 0, sizeof(TocEntry));
            }),
            "f: table of contents: the file has bytes after the last section");
}

TEST(Sections, Kinds) {
  EXPECT_EQ(problem([](File &f) { f.toc[0].rankClass = 1; }),
            "f: section PROGRAM of class 1: classes are not numbered 0, 1, ...");
  EXPECT_EQ(problem([](File &f) { f.toc[2].rankClass = 1; }),
            "f: section KERNELS of class 1: there is no program for this class");
  EXPECT_EQ(problem([](File &f) { f.toc[3].kind = 99; }),
            "f: section of unknown kind 99: unknown kind; use a newer autopar-run");
  EXPECT_EQ(problem([](File &f) { f.toc[3].rankClass = 0; }),
            "f: section CONSTANTS of class 0: belongs to all classes, but names one");
  EXPECT_EQ(problem([](File &f) { f.toc[4].kind = uint32_t(SectionKind::Constants); }),
            "f: section CONSTANTS: stands in the file twice");
  EXPECT_EQ(problem([](File &f) { f.toc[0].kind = uint32_t(SectionKind::Ranks); }),
            "f: section RANKS of class 0: not a well-formed rank table");
  EXPECT_EQ(problem([](File &f) {
              f.toc[1].kind = uint32_t(SectionKind::Program);
              f.toc[1].rankClass = 1;
            }),
            "f: section PROGRAM of class 1: not a well-formed program table");
}

} // namespace
