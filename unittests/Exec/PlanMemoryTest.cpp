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
      size_t made = sizes.size();
      sizes.push_back(sizes[buffer]);
      // Somewhere in the round, and read there too.
      std::string made_ = llvm::formatv("exec.launch @k{0}(%b{1}) -> (%b{2}) extent 1\n", kernels++,
                                        within[random() % within.size()], made);
      if (size_t place = lineEnd(round); isReadableAt(round, place, made_))
        round.insert(place, made_);
      else
        round.insert(round.rfind("}\n"), made_);
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
      sizes.push_back(1 + random() % 3);
      std::string read =
          known.empty() ? "" : llvm::formatv("%b{0}", known[random() % known.size()]).str();
      body += llvm::formatv("exec.launch @k{0}({1}) -> (%b{2}) extent 1\n", kernels++, read, made);
      known.push_back(made);
    }
    return llvm::formatv("exec.entry @{0} {{\n{1}}\n", name, body);
  }
  size_t lineEnd(const std::string &round) {
    size_t place = round.find('\n', random() % (round.size() - 4));
    return place == std::string::npos ? round.size() : place + 1;
  }
  /// Whether what `line` reads was written before `place`, if the round writes it.
  static bool isReadableAt(const std::string &round, size_t place, const std::string &line) {
    size_t begin = line.find('(') + 1;
    std::string read = "-> (" + line.substr(begin, line.find(')') - begin) + ")";
    size_t written = round.find(read);
    return place < round.size() && (written == std::string::npos || written < place);
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
    size_t value = isa<CopyOp>(op) ? 0 : size_t(llvm::hash_value(cast<LaunchOp>(op).getKernel()));
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
  std::mt19937 random(5);
  size_t atOnePlace = 0, copied = 0;
  for (int problem = 0; problem < 300; ++problem) {
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
