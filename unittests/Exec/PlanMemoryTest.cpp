// SPDX-License-Identifier: Apache-2.0
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mlir;
using namespace mlir::exec;

namespace {

constexpr int64_t kCell = 64;

/// A step of head, rounds and tail, in which every kernel reads what is there: of the head, of the
/// round so far, or what the round before handed on.
class RandomRounds {
public:
  explicit RandomRounds(std::mt19937 &random) : random(random) {
    std::vector<size_t> known;
    std::string head = entry("head", known, 4 + random() % 8);
    // Of these the round hands on another one each, of as many bytes.
    std::vector<size_t> old;
    for (size_t buffer : known)
      if (random() % 2)
        old.push_back(buffer);
    std::vector<size_t> within = known;
    std::string round = entry("round", within, 4 + random() % 16);
    std::vector<size_t> behind;
    for (size_t buffer : known)
      if (!llvm::is_contained(old, buffer))
        behind.push_back(buffer);
    for (size_t buffer : old) {
      // Sums are handed on, or what a kernel makes; some before others read what they found.
      size_t made = sizes.size();
      std::string line = random() % 2 ? sum(within, buffer) : kernel(within, sizes[buffer]);
      if (size_t place = random() % 3 ? round.rfind("}\n") : lineEnd(round);
          isReadableAt(round, place, line))
        round.insert(place, line);
      else
        round.insert(round.rfind("}\n"), line);
      handOns += llvm::formatv("exec.hand_on %b{0} to %b{1}\n", made, buffer);
      behind.push_back(made);
    }
    std::string tail = entry("tail", behind, 4 + random() % 8);
    text = "exec.program @p threads 1 {\n";
    for (auto [number, cells] : llvm::enumerate(sizes))
      text += llvm::formatv("%b{0} = exec.buffer \"b{0}\" device bytes {1} : tensor<{1}xi8>\n",
                            number, cells * kCell);
    text += handOns + head + round + tail + "exec.timetable [@head";
    std::string slots = "0";
    for (size_t count = 2 + random() % 3; count > 0; --count) {
      text += ", @round";
      slots += ", 0";
    }
    text += ", @tail] slots [" + slots + ", 0]\n}\n";
  }

  std::string text;

private:
  std::string entry(const char *name, std::vector<size_t> &known, size_t count) {
    std::string body;
    for (; count > 0; --count) {
      size_t made = sizes.size();
      body += known.empty() || random() % 3 ? kernel(known, 1 + random() % 3)
                                            : sum(known, known[random() % known.size()]);
      known.push_back(made);
    }
    return llvm::formatv("exec.entry @{0} {{\n{1}}\n", name, body);
  }
  /// Makes a new buffer of some that are known.
  std::string kernel(const std::vector<size_t> &known, int64_t cells) {
    std::string read =
        known.empty() ? "" : llvm::formatv("%b{0}", known[random() % known.size()]).str();
    sizes.push_back(cells);
    return llvm::formatv("exec.launch @k{0}({1}) -> (%b{2}) extent 1\n", kernels++, read,
                         sizes.size() - 1);
  }
  /// Adds to a buffer, in place where nobody reads it any more.
  std::string sum(const std::vector<size_t> &known, size_t buffer) {
    int64_t rows = 4 * sizes[buffer];
    std::vector<size_t> large;
    for (size_t other : known)
      if (sizes[other] >= sizes[buffer] && other != buffer)
        large.push_back(other);
    size_t factor = large.empty() ? buffer : large[random() % large.size()];
    sizes.push_back(sizes[buffer]);
    return llvm::formatv("exec.matmul %b{0}, %b{0} -> %b{1} residual %b{2} <a = <f32 [{3}, 4] "
                         "strides [4, 1]>, b = <f32 [4, 4] strides [4, 1]>, c = <f32 [{3}, 4] "
                         "strides [4, 1]>, residual = true>\n",
                         factor, sizes.size() - 1, buffer, rows);
  }
  size_t lineEnd(const std::string &round) {
    size_t place = round.find('\n', random() % (round.size() - 4));
    return place == std::string::npos ? round.size() : place + 1;
  }
  /// Whether what `line` reads was written before `place`, if the round writes it.
  static bool isReadableAt(const std::string &round, size_t place, const std::string &line) {
    if (place >= round.size())
      return false;
    for (size_t at = line.find("%b"); at != std::string::npos; at = line.find("%b", at + 1)) {
      std::string name = line.substr(at, line.find_first_not_of("0123456789", at + 2) - at);
      size_t launched = round.find("-> (" + name + ")"), summed = round.find("-> " + name + " ");
      if (std::min(launched, summed) != std::string::npos && std::min(launched, summed) >= place)
        return false;
    }
    return true;
  }

  std::mt19937 &random;
  std::vector<int64_t> sizes; ///< in cells
  size_t kernels = 0;
  std::string handOns;
};

/// What each instruction reads when rows run as the timetable says: by buffers, each of which keeps
/// its value and is handed on, or by the cells of the arena.
class Execution {
public:
  Execution(ProgramOp program, bool byCells) : byCells(byCells) {
    SmallVector<EntryOp> rows;
    for (auto timetable : program.getOps<TimetableOp>())
      for (Attribute name : timetable.getEntries())
        rows.push_back(cast<EntryOp>(program.lookupSymbol(cast<FlatSymbolRefAttr>(name))));
    EntryOp before;
    for (EntryOp entry : rows) {
      if (!byCells && entry == before)
        handOn(program);
      before = entry;
      for (Operation &op : entry.getBody().front())
        run(cast<InstructionOpInterface>(op));
    }
  }

  std::vector<size_t> seen;

private:
  void handOn(ProgramOp program) {
    std::map<void *, size_t> handed;
    for (HandOnOp op : program.getOps<HandOnOp>())
      handed[op.getTo().getAsOpaquePointer()] = values[op.getFrom().getAsOpaquePointer()];
    for (auto [buffer, value] : handed)
      values[buffer] = value;
  }
  size_t valueOf(Value buffer) {
    if (!byCells)
      return values[buffer.getAsOpaquePointer()];
    BufferOp root = rootOf(buffer).first;
    size_t first = cells[*root.getOffset() / kCell];
    for (int64_t cell = 1; cell < static_cast<int64_t>(root.getBytes()) / kCell; ++cell)
      if (cells[*root.getOffset() / kCell + cell] != first)
        return 0; // overwritten in part
    return first;
  }
  void run(InstructionOpInterface op) {
    size_t value = 0;
    for (Value buffer : op.getReads()) {
      size_t read = valueOf(buffer);
      if (isa<CopyOp>(op)) {
        value = read;
        continue;
      }
      seen.push_back(read);
      value = size_t(llvm::hash_combine(value, read));
    }
    if (!isa<CopyOp>(op))
      value = size_t(llvm::hash_combine(value, runs++));
    for (Value buffer : op.getWrites()) {
      values[buffer.getAsOpaquePointer()] = value;
      BufferOp root = rootOf(buffer).first;
      for (int64_t cell = 0; byCells && cell < static_cast<int64_t>(root.getBytes()) / kCell;
           ++cell)
        cells[*root.getOffset() / kCell + cell] = value;
    }
  }

  bool byCells;
  size_t runs = 1;
  std::map<void *, size_t> values;
  std::map<int64_t, size_t> cells;
};

TEST(PlanMemory, WhatARoundHandsOnIsThereInTheNextOne) {
  DialectRegistry registry;
  registry.insert<ExecDialect>();
  MLIRContext context(registry);
  std::mt19937 random(77);
  size_t atOnePlace = 0, copied = 0;
  for (int problem = 0; problem < 2000; ++problem) {
    std::string text = RandomRounds(random).text;
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    auto program = *module->getOps<ProgramOp>().begin();
    size_t handOns = llvm::range_size(program.getOps<HandOnOp>());
    std::vector<size_t> expected = Execution(program, /*byCells=*/false).seen;
    PassManager manager(&context);
    manager.addNestedPass<ProgramOp>(createPlanMemoryPass());
    ASSERT_TRUE(succeeded(manager.run(*module))) << text;
    ASSERT_EQ(Execution(program, /*byCells=*/true).seen, expected) << text;
    size_t copies = 0;
    program.walk([&](CopyOp) { ++copies; });
    copied += copies;
    atOnePlace += handOns - copies;
  }
  EXPECT_GT(atOnePlace, 100u);
  EXPECT_GT(copied, 100u);
}

} // namespace
