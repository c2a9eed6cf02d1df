// SPDX-License-Identifier: Apache-2.0
// Mutated models: whatever the bytes, import ends with a module or with an error. Deterministic;
// the seeds are our own samples and, where installed, models of libonnx-testdata.
#include "ImportTest.h"
#include "SampleModels.h"
#include "StructureMutation.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

using namespace autopar::test;

namespace {
constexpr int usualMutations = 10'000, contextLifetime = 250;

/// AUTOPAR_MUTATIONS and AUTOPAR_MUTATION_SEED ask for a longer hunt.
int numberFrom(const char *variable, int otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

std::vector<std::string> seeds() {
  std::vector<std::string> models = sampleModels();
  const std::filesystem::path data = "/usr/share/libonnx-testdata/data";
  std::vector<std::string> paths;
  for (const char *suite : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    if (std::filesystem::exists(data / suite))
      for (const auto &entry : std::filesystem::directory_iterator(data / suite))
        paths.push_back(entry.path() / "model.onnx");
  std::sort(paths.begin(), paths.end());
  constexpr size_t every = 9;
  for (size_t i = 0; i < paths.size(); i += every) {
    std::ifstream file(paths[i], std::ios::binary);
    models.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return models;
}

/// One to four changes: bits, bytes, numbers of extreme size, cuts, repetitions, removals.
std::string mutate(std::string bytes, std::mt19937_64 &random) {
  auto below = [&](size_t limit) { return limit ? random() % limit : 0; };
  for (size_t i = 0, count = 1 + below(4); i < count && !bytes.empty(); ++i) {
    size_t at = below(bytes.size()), length = std::min(bytes.size() - at, 1 + below(24));
    switch (below(7)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2: // a varint of 2^62 and more
      bytes.replace(at, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
      break;
    case 3: // minus one, as protobuf writes it
      bytes.replace(at, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
      break;
    case 4:
      bytes.insert(below(bytes.size()), bytes.substr(at, length));
      break;
    case 5:
      bytes.erase(at, length);
      break;
    default:
      bytes[at] = static_cast<char>(below(2) ? 0 : bytes[at] + 1);
    }
  }
  if (below(20) == 0)
    bytes.resize(below(bytes.size() + 1));
  return bytes;
}

TEST(BrokenModels, NeverCrash) {
  Folder folder;
  std::mt19937_64 random(numberFrom("AUTOPAR_MUTATION_SEED", 1));
  int mutations = numberFrom("AUTOPAR_MUTATIONS", usualMutations);
  std::vector<std::string> models = seeds();
  std::unique_ptr<mlir::MLIRContext> context;
  double slowest = 0;
  int imported = 0;
  for (int i = 0; i < mutations; ++i) {
    if (i % contextLifetime == 0)
      context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
    const std::string &seed = models[random() % models.size()];
    folder.write("model.onnx", i % 3 ? mutateStructure(seed, random) : mutate(seed, random));
    if (std::getenv("AUTOPAR_KEEP_MUTATION")) // for a closer look at a crash
      std::filesystem::copy_file(folder.file("model.onnx"), std::getenv("AUTOPAR_KEEP_MUTATION"),
                                 std::filesystem::copy_options::overwrite_existing);
    auto start = std::chrono::steady_clock::now();
    std::string error;
    imported += static_cast<bool>(importFile(folder.file("model.onnx"), *context, error));
    slowest = std::max(
        slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  printf("%d mutated models: %d imported, the others refused; slowest %.2f s\n", mutations,
         imported, slowest);
  EXPECT_LT(slowest, 20);
}

TEST(BrokenModels, EveryTruncationIsRefusedOrImported) {
  Folder folder;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const std::string &model : sampleModels())
    for (size_t size = 0; size < model.size(); size += 7) {
      folder.write("model.onnx", model.substr(0, size));
      std::string error;
      importFile(folder.file("model.onnx"), context, error);
    }
}

TEST(BrokenModels, SamplesImport) {
  Folder folder;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const std::string &model : sampleModels()) {
    folder.write("model.onnx", model);
    std::string error;
    EXPECT_TRUE(importFile(folder.file("model.onnx"), context, error)) << error;
  }
}
} // namespace
