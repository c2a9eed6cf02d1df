// SPDX-License-Identifier: Apache-2.0
// Headers of .npy files: what is read, and what is refused by its name.
#include "autopar/Runtime/Npy.h"

#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::runtime;

namespace {

std::string npy(const std::string &header, size_t dataBytes, char version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += version;
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    bytes += char(header.size() >> (8 * i));
  return bytes + header + std::string(dataBytes, '\0');
}

Result<NpyView> view(const std::string &bytes) {
  return viewNpy(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

std::string header(const std::string &descr, const std::string &order, const std::string &shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string problem(const std::string &header, size_t dataBytes = 24) {
  auto made = view(npy(header, dataBytes));
  return made ? "" : made.status().message();
}

TEST(NpyTest, HeadersOfAllVersionsAreRead) {
  for (char version : {1, 2, 3}) {
    std::string bytes = npy(header("'<f4'", "False", "(2, 3)"), 24, version);
    auto made = view(bytes);
    ASSERT_TRUE(made.isOk()) << made.status().message();
    EXPECT_EQ(made->dtype, DataType::F32);
    EXPECT_EQ(made->shape, (std::vector<int64_t>{2, 3}));
  }
  EXPECT_EQ(problem(header("'<f4'", "False", "(6,)")), "");
  EXPECT_EQ(problem(header("'<f4'", "False", "(2L, 3L)")), "");
  EXPECT_EQ(problem(header("'<f8'", "False", "()"), 8), "");
  EXPECT_EQ(problem(header("'<f4'", "False", "(0, 3)"), 0), "");
}

TEST(NpyTest, BytesOfATypeThatNumPyDoesNotHaveAreTold) {
  for (const char *descr : {"'|V1'", "'<V1'", "'<f1'"}) {
    auto made = view(npy(header(descr, "False", "(24,)"), 24));
    ASSERT_TRUE(made.isOk()) << made.status().message();
    EXPECT_TRUE(made->isVoid && made->dtype == DataType::U8) << descr;
  }
  EXPECT_FALSE(view(npy(header("'|u1'", "False", "(24,)"), 24))->isVoid);
}

TEST(NpyTest, WhatIsWrongWithAHeaderIsSaid) {
  EXPECT_EQ(problem("{'descr': '<f4', 'shape': (6,), }\n"),
            "the header has no fortran_order; expected what numpy.save writes");
  EXPECT_EQ(problem("{'fortran_order': False, 'shape': (6,), }\n"),
            "the header has no descr; expected what numpy.save writes");
  EXPECT_EQ(problem("{'descr': '<f4', 'fortran_order': False, }\n"),
            "the header has no shape; expected what numpy.save writes");
  EXPECT_EQ(problem(""), "the header has no descr; expected what numpy.save writes");
  EXPECT_EQ(problem("{'descr': '<f4"), "the header has no descr; expected what numpy.save writes");
  EXPECT_EQ(problem(header("'<f4'", "True", "(2, 3)")),
            "arrays in Fortran order are not read; save numpy.ascontiguousarray(array)");
  EXPECT_EQ(problem(header("'<f4'", "Maybe", "(6,)")),
            "fortran_order is Maybe; expected True or False");
  EXPECT_EQ(problem(header("'>f4'", "False", "(6,)")),
            "element type '>f4' is big-endian; save array.astype('<f4')");
  EXPECT_EQ(problem(header("'|O'", "False", "(6,)")),
            "element type '|O' are Python objects; save an array of numbers");
  EXPECT_EQ(problem(header("[('a', '<f4')]", "False", "(6,)")).rfind("element type '[('a'' ", 0),
            0u);
  for (const char *shape : {"(-6,)", "(1.5, 4)", "(a,)", "(6 4)", "(99999999999999999999,)",
                            "(4611686018427387904, 4)"})
    EXPECT_EQ(problem(header("'<f4'", "False", shape)),
              "shape " + std::string(shape) +
                  ": expected extents that are not negative and fit into memory");
  EXPECT_EQ(problem(header("'<f4'", "False", "(2, 4)")),
            "the data does not have the size that the header says: f32 [2,4] are 32 bytes, there "
            "are 24");
}

TEST(NpyTest, BytesThatAreNoFileAreRefusedAtAnyLength) {
  std::string whole = npy(header("'<f4'", "False", "(2, 3)"), 24);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(view(whole.substr(0, size)).isOk()) << size;
  EXPECT_EQ(view(whole.substr(0, 20)).status().message(), "the header is cut off");
  whole[6] = 7;
  EXPECT_EQ(view(whole).status().message(), "version 7 of .npy is not known; expected 1 to 3");
}

} // namespace
