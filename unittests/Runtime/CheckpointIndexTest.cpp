// SPDX-License-Identifier: Apache-2.0
// Indexes of checkpoints and files of weights that were damaged, changed or made by others.
#include "CheckpointIndex.h"
#include "autopar/Runtime/Initializer.h"
#include "autopar/Runtime/SafetensorsFile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;

namespace {

class CheckpointIndexTest : public ::testing::Test {
protected:
  std::string folder = ::testing::TempDir() + "autopar-index-" + std::to_string(getpid());

  void SetUp() override { (void)!system(("mkdir -p " + folder).c_str()); }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  std::string write(const std::string &name, const std::string &bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
    return folder + "/" + name;
  }
  /// A tensor of two numbers in a file of eight bytes.
  CheckpointIndex sample() {
    write("rank-0.safetensors", "12345678");
    CheckpointIndex index;
    index.fileBytes["rank-0.safetensors"] = 8;
    index.tensors["w"] = {DataType::F32,
                          {2},
                          {{"rank-0.safetensors", "w", {{0}, {2}}, 0, Digest::of("12345678", 8)}}};
    return index;
  }
  std::string problem(const std::function<void(CheckpointIndex &)> &change) {
    CheckpointIndex index = sample();
    change(index);
    return index.verifyFiles(folder).message();
  }
};

TEST_F(CheckpointIndexTest, CheckpointsAreNamedByTheirNumberAndOrderedByIt) {
  for (const char *name : {"step-best", "step-00000002", "step-100000000", "step-99999999",
                           "step-00000003.partial", "step-7", "step-", "step-0000000x", "other"})
    (void)!system(("mkdir " + folder + "/" + name).c_str());
  std::vector<std::string> expected = {"step-00000002", "step-99999999", "step-100000000"};
  EXPECT_EQ(checkpointsIn(folder), expected);
  ASSERT_TRUE(keepNewestCheckpoints(folder, 2).isOk());
  expected.erase(expected.begin());
  EXPECT_EQ(checkpointsIn(folder), expected);
  EXPECT_EQ(access((folder + "/step-best").c_str(), F_OK), 0);
}

TEST_F(CheckpointIndexTest, FilesThatDoNotFitTheIndex) {
  using I = CheckpointIndex;
  const std::string file = folder + "/rank-0.safetensors: ";
  auto piece = [](I &index) -> CheckpointPiece & { return index.tensors["w"].pieces[0]; };
  EXPECT_EQ(problem([](I &) {}), "");
  EXPECT_EQ(problem([](I &i) { i.fileBytes["../x"] = 1; }),
            folder + ": file name ../x leads out of the checkpoint");
  EXPECT_EQ(problem([](I &i) { i.fileBytes["rank-1.safetensors"] = 1; }),
            "cannot open " + folder + "/rank-1.safetensors: No such file or directory");
  EXPECT_EQ(problem([](I &i) { i.fileBytes["rank-0.safetensors"] = 9; }),
            file + "8 bytes, expected 9");
  EXPECT_EQ(problem([&](I &i) { piece(i).file = "rank-1.safetensors"; }),
            folder + ": tensor w lies in rank-1.safetensors, which the index does not list");
  EXPECT_EQ(problem([&](I &i) { piece(i).box.extent = {3}; }),
            file + "the box of w does not fit the tensor or the file");
  EXPECT_EQ(problem([&](I &i) { piece(i).begin = 4; }),
            file + "the box of w does not fit the tensor or the file");
  EXPECT_EQ(problem([&](I &i) { piece(i).digest = {}; }), file + "the bytes of w have changed");
  EXPECT_EQ(problem([](I &i) { i.tensors["w"].pieces.clear(); }),
            folder + ": the pieces of w do not fill it");
  EXPECT_EQ(problem([](I &i) {
              i.tensors["w"].shape = {INT64_MAX, 8};
            }),
            folder + ": the shape of w is negative or too large");
}

TEST_F(CheckpointIndexTest, TextsThatAreNoIndex) {
  auto errorOf = [](const std::string &text) {
    return CheckpointIndex::fromJson(text).status().message();
  };
  std::string text = sample().toJson();
  EXPECT_EQ(errorOf(text), "");
  EXPECT_EQ(errorOf(R"({"kind": "autopar.plan", "version": 1})"),
            "expected kind autopar.checkpoint, version 1, found kind \"autopar.plan\", version 1");
  std::string changed = text;
  changed[changed.find("rank-0")] = 'R';
  EXPECT_EQ(errorOf(changed), "its digest does not fit: it was changed");
  // Deeper than a stack of calls could follow.
  std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_EQ(errorOf("{\"deep\": " + deep + "," + text.substr(1)),
            "expected a JSON object; it was cut off or overwritten");
  EXPECT_EQ(errorOf("{}"),
            "expected kind autopar.checkpoint, version 1, found kind null, version null");
  for (const std::string &broken : {std::string(), text.substr(0, 100), std::string("[1]")})
    EXPECT_EQ(errorOf(broken), "expected a JSON object; it was cut off or overwritten");
  std::string damaged = text;
  damaged[damaged.find("rank-0")] = '\xff';
  EXPECT_EQ(errorOf(damaged), "expected a JSON object; it was cut off or overwritten");
  EXPECT_EQ(errorOf(R"({"kind": "autopar.checkpoint", "version": 1, "digest": 5})"),
            "its digest does not fit: it was changed");
  for (int64_t step : {int64_t{-1}, INT64_MAX}) {
    CheckpointIndex index = sample();
    index.info.step = step;
    EXPECT_NE(errorOf(index.toJson()), "");
  }
  EXPECT_EQ(sample().addPart("{").message().rfind("the part of a rank cannot be read: ", 0), 0u);
}

/// The bytes of a file with this header and eight bytes of data.
std::string safetensors(const std::string &header) {
  uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + "12345678";
}

TEST_F(CheckpointIndexTest, SafetensorsThatAreDamaged) {
  auto errorOf = [](const std::string &bytes) {
    return readSafetensors(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())
        .status()
        .message();
  };
  auto ofTensor = [&](const std::string &tensor) {
    return errorOf(safetensors("{\"w\": {" + tensor + "}}"));
  };
  EXPECT_EQ(ofTensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])"), "");
  EXPECT_EQ(errorOf("1234567"), "too short for a safetensors file");
  EXPECT_EQ(errorOf(std::string(8, '\x7f')), "the header is cut off");
  EXPECT_EQ(errorOf(safetensors("[1]")), "the header is no JSON object");
  EXPECT_EQ(ofTensor(R"("dtype": "F32")"), "tensor w: expected dtype, shape and data_offsets");
  EXPECT_EQ(ofTensor(R"("dtype": "F8", "shape": [2], "data_offsets": [0, 8])"),
            "tensor w: unknown dtype F8");
  EXPECT_EQ(ofTensor(R"("dtype": "F32", "shape": [-2], "data_offsets": [0, 8])"),
            "tensor w: extents must be whole numbers");
  EXPECT_EQ(ofTensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8.5])"),
            "tensor w: data_offsets must be whole numbers");
  EXPECT_EQ(ofTensor(R"("dtype": "F32", "shape": [3], "data_offsets": [0, 12])"),
            "tensor w: its bytes do not fit its shape or the file");
}

TEST_F(CheckpointIndexTest, IndexesOfWeightFilesThatNameNoFile) {
  auto errorOf = [&](const std::string &text) {
    return Initializer::parse(write("weights.json", text)).status().message();
  };
  const std::string path = folder + "/weights.json: ";
  EXPECT_EQ(errorOf("{}"),
            path +
                "expected a JSON object with \"weight_map\", which names the file of each tensor");
  EXPECT_EQ(errorOf(R"({"weight_map": {"w": 1}})"), path + "the file of w is no text");
  EXPECT_EQ(errorOf(R"({"weight_map": {"w": "none.safetensors"}})"),
            "cannot open " + folder + "/none.safetensors: No such file or directory");
}

TEST_F(CheckpointIndexTest, WeightsThatAreNotTheModels) {
  artifact::Port w{artifact::Role::Parameter, "w", DataType::F32, {2}, -1, {}};
  w.source.kind = artifact::SourceKind::Absent;
  std::string path =
      write("w.safetensors",
            safetensors(R"({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})"));
  auto errorOf = [&](const artifact::Port &port) {
    std::vector<const artifact::Port *> ports{&port};
    return Initializer::parse(path)->check(ports).message();
  };
  EXPECT_EQ(errorOf(w), "");
  artifact::Port other = w;
  other.name = "v";
  EXPECT_EQ(errorOf(other), "parameter v has no weights, and the initializer does not give it: " +
                                path + " has 1 tensor: w");
  other.source.kind = artifact::SourceKind::File;
  EXPECT_EQ(errorOf(other), "no parameter is in the file: " + path + " has 1 tensor: w");
  other = w;
  other.shape = {1, 2};
  EXPECT_EQ(errorOf(other), "parameter w: expected f32 [1,2], the file has f32 [2]");
}

} // namespace
