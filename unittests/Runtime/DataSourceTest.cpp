// SPDX-License-Identifier: Apache-2.0
// Batches from files: order, windows, boxes, and everything that is refused before the first step.
#include "autopar/Runtime/DataSource.h"
#include "autopar/Runtime/Npy.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;

namespace {

class DataSourceTest : public testing::Test {
protected:
  std::string folder = "/tmp/autopar-data-" + std::to_string(getpid());
  void SetUp() override { (void)!system(("mkdir -p " + folder).c_str()); }
  void TearDown() override { (void)!system(("rm -r " + folder).c_str()); }

  std::string write(const std::string &name, const void *data, size_t bytes) {
    std::string path = folder + "/" + name;
    std::ofstream(path, std::ios::binary).write(static_cast<const char *>(data), int64_t(bytes));
    return path;
  }
  std::string tokens(size_t count) {
    std::vector<uint16_t> values(count);
    std::iota(values.begin(), values.end(), uint16_t(0));
    return write("tokens" + std::to_string(count) + ".bin", values.data(), count * 2);
  }
  static TensorSpec spec(const std::string &name, DataType type, std::vector<int64_t> shape) {
    int64_t bytes = byteSize(type);
    for (int64_t extent : shape)
      bytes *= extent;
    return {name, type, std::move(shape), bytes};
  }
  static std::vector<int64_t> whole(const DataSource &data, const TensorSpec &input, int64_t step) {
    std::vector<int64_t> values(size_t(input.bytes / 8));
    EXPECT_TRUE(data.read(input.name, step,
                          {std::vector<int64_t>(input.shape.size(), 0), input.shape}, values.data())
                    .isOk());
    return values;
  }
  static std::string why(const DataOptions &options, const std::vector<TensorSpec> &inputs) {
    auto data = DataSource::open(options, inputs);
    return data ? "" : data.status().message();
  }

  const TensorSpec ids = spec("ids", DataType::I64, {4, 8}),
                   labels = spec("labels", DataType::I64, {4, 8});
};

TEST_F(DataSourceTest, WindowsAreShiftedByOneBetweenInputsAndLabels) {
  DataOptions options{{tokens(100)}, "ids=tokens[:-1], labels=tokens[1:]"};
  options.isShuffled = false;
  auto data = DataSource::open(options, {ids, labels});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  EXPECT_EQ((*data)->samples(), 12); // windows of 9 tokens, 8 apart
  EXPECT_EQ((*data)->unusedTokens(), 3);
  std::vector<int64_t> x = whole(**data, ids, 1), y = whole(**data, labels, 1);
  for (int64_t i = 0; i < 32; ++i) {
    EXPECT_EQ(x[size_t(i)], 32 + i);
    EXPECT_EQ(y[size_t(i)], 33 + i);
  }
}

TEST_F(DataSourceTest, EveryEpochSeesEachSampleOnceInAnotherOrder) {
  std::vector<int64_t> rows(10);
  std::iota(rows.begin(), rows.end(), 0);
  std::string path = folder + "/rows.npy";
  ASSERT_TRUE(writeNpy(path, DataType::I64, {10}, rows.data(), 80).isOk());
  TensorSpec row = spec("row", DataType::I64, {5});
  auto data = DataSource::open({{path}, "", DataType::U16, true, 7}, {row});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int64_t> seen = whole(**data, row, 2 * epoch),
                         more = whole(**data, row, 2 * epoch + 1);
    seen.insert(seen.end(), more.begin(), more.end());
    orders.insert(seen);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 10u);
  }
  EXPECT_GE(orders.size(), 19u);
  auto again = DataSource::open({{path}, "", DataType::U16, true, 7}, {row});
  auto other = DataSource::open({{path}, "", DataType::U16, true, 8}, {row});
  EXPECT_EQ(whole(**data, row, 3), whole(**again, row, 3));
  EXPECT_NE(whole(**data, row, 3), whole(**other, row, 3));
}

TEST_F(DataSourceTest, ABoxIsTheSamePartOfTheWholeBatch) {
  TensorSpec images = spec("images", DataType::I64, {4, 3, 5});
  std::vector<uint8_t> pixels(20 * 3 * 5);
  std::iota(pixels.begin(), pixels.end(), uint8_t(0));
  std::string path = folder + "/images.npy";
  ASSERT_TRUE(
      writeNpy(path, DataType::U8, {20, 3, 5}, pixels.data(), int64_t(pixels.size())).isOk());
  for (const std::string &source : {path, std::string("synthetic(vocab=1000)")}) {
    auto data = DataSource::open({{source}, source == path ? "images=array" : ""}, {images});
    ASSERT_TRUE(data.isOk()) << data.status().message();
    std::vector<int64_t> all = whole(**data, images, 2), box(2 * 2 * 3);
    ASSERT_TRUE((*data)->read("images", 2, {{1, 1, 2}, {2, 2, 3}}, box.data()).isOk());
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j)
        for (int64_t k = 0; k < 3; ++k)
          EXPECT_EQ(box[size_t((i * 2 + j) * 3 + k)],
                    all[size_t(((i + 1) * 3 + j + 1) * 5 + k + 2)]);
  }
}

TEST_F(DataSourceTest, WholeBatchesHoldEverySampleOnce) {
  for (int64_t batch : {1, 5, 8, 12})
    for (int64_t samples : {1, 7, 8, 31}) {
      int64_t next = 0;
      for (SampleRange range : wholeBatches(samples, batch)) {
        EXPECT_EQ(range.first, next);
        EXPECT_EQ(batch % range.count, 0);
        next += range.count;
      }
      EXPECT_EQ(next, samples);
    }
  EXPECT_EQ(wholeBatches(31, 12).size(), 4u); // 12, 12, 6, 1
}

TEST_F(DataSourceTest, ABatchOfFewSamplesRepeatsThem) {
  TensorSpec rows = spec("rows", DataType::I32, {6, 2});
  std::vector<int32_t> values(20);
  std::iota(values.begin(), values.end(), 0);
  std::string path = folder + "/few.npy";
  ASSERT_TRUE(writeNpy(path, DataType::I32, {10, 2}, values.data(), 80).isOk());
  auto data = DataSource::open({{path}, "", DataType::U16, false}, {rows});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  std::vector<int32_t> read(6);
  ASSERT_TRUE((*data)->read("rows", SampleRange{7, 2}, {{1, 1}, {5, 1}}, read.data()).isOk());
  read.resize(5);
  EXPECT_EQ(read, (std::vector<int32_t>{17, 15, 17, 15, 17}));
}

TEST_F(DataSourceTest, SamplesOfSeveralFilesFollowEachOther) {
  std::string one = tokens(20), two = tokens(44); // 2 windows and 3 tokens, 5 windows and 3 tokens
  const char *fields = "ids=tokens[:-1], labels=tokens[1:]";
  DataOptions options{{one, two}, fields, DataType::U16, false};
  auto data = DataSource::open(options, {ids, labels});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  EXPECT_EQ((*data)->samples(), 7);
  EXPECT_EQ((*data)->unusedTokens(), 6);
  std::vector<int64_t> first = whole(**data, ids, 0), next = whole(**data, labels, 1);
  EXPECT_EQ((std::vector<int64_t>{first[0], first[8], first[16], first[24]}),
            (std::vector<int64_t>{0, 8, 0, 8}));
  EXPECT_EQ((std::vector<int64_t>{next[0], next[8], next[16], next[24]}),
            (std::vector<int64_t>{17, 25, 33, 1}));
  auto found = DataSource::open({{folder + "/tokens??.bin"}, fields}, {ids, labels});
  ASSERT_TRUE(found.isOk()) << found.status().message();
  EXPECT_EQ((*found)->samples(), 7);
  EXPECT_EQ(why({{folder + "/none*.bin"}, fields}, {ids, labels}),
            "no file is called " + folder + "/none*.bin");
  std::vector<int64_t> rows(16);
  std::string other = folder + "/ids.npy";
  ASSERT_TRUE(writeNpy(other, DataType::I64, {2, 8}, rows.data(), 128).isOk());
  EXPECT_EQ(why({{other, folder + "/tokens20.bin"}, ""}, {ids}),
            folder + "/tokens20.bin has tokens: u16 [20]; the inputs are ids: i64 [4,8]; say with "
                     "--fields which array feeds which input, for example "
                     "\"input_ids=tokens[:-1], labels=tokens[1:]\"");
}

TEST_F(DataSourceTest, TokensStandBehindTheHeaderOfAShard) {
  for (auto [mark, version, bytes] :
       {std::array<uint32_t, 3>{20240520, 1, 2}, std::array<uint32_t, 3>{20240801, 7, 4}}) {
    std::vector<uint32_t> words(256 + 32 * bytes / 4);
    words[0] = mark, words[1] = version, words[2] = 32;
    words[256] = bytes == 4 ? 100000 : 7;
    std::string path = write("shard.bin", words.data(), words.size() * 4);
    auto data = DataSource::open({{path}, "ids=tokens[:]", DataType::U16, false}, {ids});
    ASSERT_TRUE(data.isOk()) << data.status().message();
    EXPECT_EQ((*data)->samples(), 4);
    EXPECT_EQ(whole(**data, ids, 0)[0], words[256]);
    path = write("cut.bin", words.data(), words.size() * 4 - 4);
    EXPECT_NE(why({{path}, "ids=tokens[:]"}, {ids}).find("its header says 32 tokens of u"),
              std::string::npos);
  }
}

TEST_F(DataSourceTest, ValuesOutOfRangeAreFoundInWhatTheStepsRead) {
  TensorSpec labels = spec("labels", DataType::I64, {2, 4});
  labels.limits = artifact::Limits{0, 29, -1};
  std::vector<int32_t> rows(40);
  std::iota(rows.begin(), rows.end(), 0); // sample 7 holds 28 to 31
  rows[5] = -1;
  std::string path = folder + "/rows.npy";
  ASSERT_TRUE(writeNpy(path, DataType::I32, {10, 4}, rows.data(), 160).isOk());
  DataOptions options{{path}, "labels=array"};
  options.isShuffled = false;
  auto data = DataSource::open(options, {labels});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  EXPECT_TRUE((*data)->checkValues(0, 3).isOk());
  for (int64_t first : {0, 3})
    EXPECT_EQ((*data)->checkValues(first, 4).message(),
              path + ": field labels, sample 7 at [2]: 30 is out of range: expected 0 to 29, or -1")
        << first;
  // The parts together see everything once.
  EXPECT_TRUE((*data)->checkValues(0, 100, {0, 2}).isOk());
  EXPECT_FALSE((*data)->checkValues(0, 100, {1, 2}).isOk());
  labels.limits->exception.reset();
  data = DataSource::open(options, {labels});
  EXPECT_EQ((*data)->checkValues(0, 1).message(),
            path + ": field labels, sample 1 at [1]: -1 is out of range: expected 0 to 29");
}

TEST_F(DataSourceTest, MadeUpValuesStayWithinTheLimits) {
  TensorSpec labels = spec("labels", DataType::I64, {8, 64});
  labels.limits = artifact::Limits{0, 2, std::nullopt};
  auto data = DataSource::open({{"synthetic"}, ""}, {labels});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  std::vector<int64_t> values = whole(**data, labels, 0);
  EXPECT_EQ(std::set<int64_t>(values.begin(), values.end()), (std::set<int64_t>{0, 1, 2}));
  EXPECT_NE(why({{"synthetic(vocab=4)"}, ""}, {labels}).find("vocab must be at most 3"),
            std::string::npos);
}

TEST_F(DataSourceTest, SyntheticFloatsAreCloseToNormal) {
  TensorSpec images = spec("images", DataType::F32, {4, 100, 250});
  auto data = DataSource::open({{"synthetic"}, ""}, {images});
  ASSERT_TRUE(data.isOk()) << data.status().message();
  std::vector<float> values(4 * 100 * 250);
  ASSERT_TRUE((*data)->read("images", 0, {{0, 0, 0}, images.shape}, values.data()).isOk());
  double moments[5] = {};
  for (float value : values)
    for (int power = 1; power <= 4; ++power)
      moments[power] += std::pow(value, power) / double(values.size());
  EXPECT_NEAR(moments[1], 0, 0.02);
  EXPECT_NEAR(moments[2], 1, 0.02);
  EXPECT_NEAR(moments[3], 0, 0.05);
  EXPECT_NEAR(moments[4], 2.7, 0.1); // 3 of a normal distribution
}

TEST_F(DataSourceTest, WhatDoesNotFitIsRefusedBeforeTheFirstStep) {
  std::string file = tokens(100);
  std::vector<float> floats(40);
  std::string rows = folder + "/rows.npy";
  ASSERT_TRUE(writeNpy(rows, DataType::F32, {5, 8}, floats.data(), 160).isOk());
  std::string table = folder + "/table.npy";
  std::vector<int64_t> words(40);
  ASSERT_TRUE(writeNpy(table, DataType::I64, {5, 8}, words.data(), 320).isOk());
  struct Case {
    DataOptions options;
    const char *says;
  };
  const Case cases[] = {
      {{{folder + "/none.bin"}, "ids=tokens[:]"}, "cannot open"},
      {{{write("odd.bin", "abc", 3)}, "ids=tokens[:]"}, "end in the middle of a u16"},
      {{{tokens(5)}, "ids=tokens[:]"}, "too short: 5 tokens, one sample takes 8"},
      {{{rows}, "ids=array"}, "array 'array' holds f32, the input wants i64"},
      {{{rows}, "ids=rows"}, "there is no array 'rows'; the file has array: f32 [5,8]"},
      {{{rows}, "x=array"}, "there is no such input; the inputs are ids: i64 [4,8], labels"},
      {{{rows}, ""}, "say with --fields"},
      {{{file}, "ids=tokens"}, "take windows with tokens[a:b]"},
      {{{table}, "ids=array[:]"},
       "a part [a:b] is taken from a stream of one dimension for an input of two, [batch, length]; "
       "array 'array' has shape [5,8], the input [4,8]"},
      {{{file}, "ids=tokens[:-1], labels=tokens[2:]"}, "windows of 10 tokens"},
      {{{file}, "ids=tokens[:], ids=tokens[:]"}, "fed twice"},
      {{{file}, "ids=tokens[:1]"}, "expected a negative number of places to leave out at the end"},
      {{{file}, "=tokens"}, "fields: expected the name of an input at character 1"},
      {{{file}, "ids="}, "fields: expected the name of an array at character 5"},
      {{{file}, "ids=tokens[x:]"}, "fields: expected ':' at character 12"},
      {{{file}, "ids=tokens[99999999999:]"},
       "fields: expected a number of places to leave out, or ':' at character"},
      {{{file}, "ids=tokens[:] labels=tokens[:]"},
       "fields: expected ',' or the end at character 15"},
      {{{file}, "ids tokens"}, "expected '=' at character 5"},
      {{{write("x.npz", "PK", 2)}, "ids=a"}, "not a .npz file"},
      {{{write("x.npy", "no", 2)}, "ids=array"}, "not a .npy file"},
      {{{write("none.npz", ("PK\5\6" + std::string(18, '\0')).data(), 22)}, ""},
       "none.npz has no arrays; the inputs are ids"},
      {{{"synthetic(words=3)"}, ""}, "expected synthetic or synthetic(vocab=N)"},
  };
  for (const Case &c : cases) {
    EXPECT_NE(why(c.options, {ids, labels}).find(c.says), std::string::npos)
        << c.says << ": " << why(c.options, {ids, labels});
  }
  std::string none = folder + "/none.npy";
  ASSERT_TRUE(writeNpy(none, DataType::I64, {0, 8}, nullptr, 0).isOk());
  EXPECT_EQ(why({{none}, "ids=array"}, {ids}), none + ": field ids: array 'array' has no samples");
  EXPECT_EQ(why({{none}, "rate=array"}, {spec("rate", DataType::I64, {})}),
            none + ": field rate: a scalar has no samples; give it with --input");
  EXPECT_EQ(why({{file}, "ids=tokens[:], ids=tokens[:]"}, {ids}),
            file + ": field ids: it is fed twice");
  EXPECT_EQ(why({{file}, "ids=tokens[:-1], labels=tokens[2:]"}, {ids, labels}),
            file + ": the part of labels means windows of 10 tokens, that of ids windows of 9");
}

} // namespace
