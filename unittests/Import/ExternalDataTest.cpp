// SPDX-License-Identifier: Apache-2.0
// External data stays inside the model's folder and inside its file.
#include "ImportTest.h"
#include "SampleModels.h"

#include <filesystem>

using namespace autopar::test;

namespace {
struct ExternalData : testing::Test {
  Folder outside, folder;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};

  void SetUp() override {
    outside.write("secret", std::string(64, 's'));
    folder.write("weights", std::string(64, 'w'));
  }
  /// The error for a model whose weights lie at `location`; empty if it imports.
  std::string errorOf(const std::string &location,
                      const std::vector<std::pair<std::string, std::string>> &entries = {}) {
    folder.write("model.onnx", externalModel(location, entries));
    std::string error;
    importFile(folder.file("model.onnx"), context, error);
    return error;
  }
};

TEST_F(ExternalData, IsReferencedInsideTheFolder) {
  EXPECT_EQ(errorOf("weights"), "");
  EXPECT_EQ(errorOf("weights", {{"offset", "48"}, {"length", "16"}}), "");
}

TEST_F(ExternalData, MayBeAbsent) { EXPECT_EQ(errorOf("nowhere"), ""); }

TEST_F(ExternalData, StaysInsideTheFolder) {
  std::string up = std::filesystem::relative(outside.file("secret"), folder.file(".")).string();
  const std::string absolute = outside.file("secret");
  std::filesystem::create_symlink(absolute, folder.file("link"));
  std::filesystem::create_directory_symlink(outside.file("."), folder.file("door"));
  std::filesystem::create_hard_link(absolute, folder.file("hard"));
  std::filesystem::create_directory(folder.file("directory"));
  const std::pair<std::string, const char *> refused[] = {
      {up, "leaves the model's folder"},
      {"sub/../../" + up, "leaves the model's folder"},
      {absolute, "is not a relative path"},
      {"/etc/passwd", "is not a relative path"},
      {"c:\\weights", "is not a relative path"},
      {"", "is empty"},
      {std::string("weights\0", 8), "holds a zero byte"},
      {"link", "is a link that leaves the model's folder"},
      {"door/secret", "is a link that leaves the model's folder"},
      {"hard", "is a hard link, copy the file instead"},
      {"directory", "is no regular file"}};
  for (const auto &[location, why] : refused)
    EXPECT_EQ(errorOf(location), "node 'Add_0' (Add): initializer 'w': external data location '" +
                                     location + "' " + why + "\n");
}

TEST_F(ExternalData, FollowsLinksThatStayInside) {
  std::filesystem::create_symlink("weights", folder.file("alias"));
  EXPECT_EQ(errorOf("alias"), "");
}

TEST_F(ExternalData, StaysInsideTheFile) {
  auto errorWith = [&](const std::string &key, const std::string &value) {
    return errorOf("weights", {{key, value}});
  };
  const std::string w = "node 'Add_0' (Add): initializer 'w': ",
                    numbers = w + "offset and length of external data must be numbers that are not "
                                  "negative\n";
  const std::string end = " on go beyond the end of '" + folder.file("weights") +
                          "', which has 64; give the weights that belong to the model\n";
  EXPECT_EQ(errorWith("offset", "60"), w + "16 bytes from byte 60" + end);
  EXPECT_EQ(errorWith("offset", "-4"), numbers);
  EXPECT_EQ(errorWith("offset", "18446744073709551600"),
            w + "16 bytes from byte 18446744073709551600" + end);
  EXPECT_EQ(errorWith("length", "8"), w + "its shape and type take 16 bytes, but it holds 8\n");
  EXPECT_EQ(errorWith("length", "x"), numbers);
  EXPECT_EQ(errorWith("basepath", "/"), w + "external data has an unknown key 'basepath'\n");
}
} // namespace
