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
  EXPECT_NE(errorOf(up), "");
  EXPECT_NE(errorOf("sub/../../" + up), "");
  EXPECT_NE(errorOf(outside.file("secret")), "");
  EXPECT_NE(errorOf("/etc/passwd"), "");
  EXPECT_NE(errorOf(""), "");
  std::filesystem::create_symlink(outside.file("secret"), folder.file("link"));
  EXPECT_NE(errorOf("link"), "");
  std::filesystem::create_directory_symlink(outside.file("."), folder.file("door"));
  EXPECT_NE(errorOf("door/secret"), "");
  std::filesystem::create_hard_link(outside.file("secret"), folder.file("hard"));
  EXPECT_NE(errorOf("hard"), "");
  std::filesystem::create_directory(folder.file("directory"));
  EXPECT_NE(errorOf("directory"), "");
}

TEST_F(ExternalData, FollowsLinksThatStayInside) {
  std::filesystem::create_symlink("weights", folder.file("alias"));
  EXPECT_EQ(errorOf("alias"), "");
}

TEST_F(ExternalData, StaysInsideTheFile) {
  EXPECT_NE(errorOf("weights", {{"offset", "60"}}), "");
  EXPECT_NE(errorOf("weights", {{"offset", "-4"}}), "");
  EXPECT_NE(errorOf("weights", {{"offset", "18446744073709551600"}}), "");
  EXPECT_NE(errorOf("weights", {{"length", "8"}}), "");
  EXPECT_NE(errorOf("weights", {{"length", "x"}}), "");
  EXPECT_NE(errorOf("weights", {{"basepath", "/"}}), "");
}
} // namespace
