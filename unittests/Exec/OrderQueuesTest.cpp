// SPDX-License-Identifier: Apache-2.0
#include "autopar/Artifact/Program.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mlir::exec;

namespace {

using Buffers = std::vector<std::pair<int64_t, int64_t>>; ///< by offset and bytes

/// A program over one arena, with entries as text.
std::string programWith(const Buffers &buffers, llvm::StringRef entries) {
  std::string text = "exec.program @p arena [65536, 0, 0] threads 1 {\n";
  for (auto [number, buffer] : llvm::enumerate(buffers))
    text += llvm::formatv("%b{0} = exec.buffer \"b{0}\" device bytes {1} at {2} : tensor<{1}xi8>\n",
                          number, buffer.second, buffer.first);
  return text + entries.str() + "}\n";
}

/// A program of one entry, instructions as text.
std::string programOf(const Buffers &buffers, llvm::StringRef body) {
  return programWith(buffers, "exec.entry @step {\n" + body.str() + "}\n");
}

/// The instructions of a program once their queues are ordered, as often as rows of the timetable
/// run them; without one, those of all entries.
class Ordered {
public:
  explicit Ordered(const std::string &text) {
    DialectRegistry registry;
    registry.insert<ExecDialect>();
    context.appendDialectRegistry(registry);
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return;
    PassManager manager(&context);
    manager.addNestedPass<ProgramOp>(createOrderQueuesPass());
    if (failed(manager.run(*module)))
      return;
    auto program = *module->getOps<ProgramOp>().begin();
    llvm::SmallVector<EntryOp> rows;
    for (auto timetable : program.getOps<TimetableOp>())
      for (Attribute name : timetable.getEntries())
        rows.push_back(cast<EntryOp>(program.lookupSymbol(cast<FlatSymbolRefAttr>(name))));
    if (rows.empty())
      rows = llvm::to_vector(program.getOps<EntryOp>());
    llvm::StringMap<size_t> lastRuns;
    for (EntryOp entry : rows) {
      size_t begin = instructions.size();
      for (Operation &op : entry.getBody().front())
        add(cast<InstructionOpInterface>(op), begin, lastRuns);
      lastRuns[entry.getSymName()] = begin;
    }
  }

  size_t size() const { return instructions.size(); }
  llvm::SmallVector<int32_t> after(size_t index) const { return waits[index]; }
  /// Whether two instructions touch the same bytes, and one of them writes there.
  bool conflict(size_t a, size_t b) const {
    return meet(instructions[a].getWrites(), instructions[b].getReads()) ||
           meet(instructions[a].getWrites(), instructions[b].getWrites()) ||
           meet(instructions[a].getReads(), instructions[b].getWrites());
  }
  /// Which instructions are complete when each one starts: by its queue, by whom it waits for, and
  /// by whom those waited for.
  std::vector<llvm::BitVector> completeBefore() const {
    std::vector<llvm::BitVector> complete;
    llvm::DenseMap<int, size_t> lastOf;
    for (size_t index = 0; index < size(); ++index) {
      llvm::BitVector own(size());
      auto add = [&](size_t earlier) {
        own |= complete[earlier];
        own.set(earlier);
      };
      Queue queue = instructions[index].getQueue();
      if (auto last = lastOf.find(static_cast<int>(queue)); last != lastOf.end())
        add(last->second);
      llvm::for_each(after(index), add);
      if (!endsInAnyOrder(static_cast<::autopar::artifact::Queue>(queue)))
        lastOf[static_cast<int>(queue)] = index;
      complete.push_back(std::move(own));
    }
    return complete;
  }

private:
  void add(InstructionOpInterface op, size_t begin, const llvm::StringMap<size_t> &lastRuns) {
    instructions.push_back(op);
    llvm::SmallVector<int32_t> &own = waits.emplace_back();
    if (auto after = op->getAttrOfType<DenseI32ArrayAttr>("after"))
      for (int32_t earlier : after.asArrayRef())
        own.push_back(static_cast<int32_t>(begin) + earlier);
    if (auto awaits = op->getAttrOfType<DictionaryAttr>("awaits"))
      for (NamedAttribute entry : awaits)
        if (auto last = lastRuns.find(entry.getName()); last != lastRuns.end())
          for (int32_t earlier : cast<DenseI32ArrayAttr>(entry.getValue()).asArrayRef())
            own.push_back(static_cast<int32_t>(last->second) + earlier);
  }

  static bool meet(llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> b) {
    return llvm::any_of(a, [&](Value x) {
      return llvm::any_of(b, [&](Value y) {
        int64_t xBegin = beginOf(x), yBegin = beginOf(y);
        return xBegin < yBegin + bytesOf(y) && yBegin < xBegin + bytesOf(x);
      });
    });
  }
  static int64_t beginOf(Value value) {
    auto [buffer, offset] = rootOf(value);
    return *buffer.getOffset() + offset;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  mutable std::vector<InstructionOpInterface> instructions; ///< handles; only read
  std::vector<llvm::SmallVector<int32_t>> waits;
};

/// Buffers that lie across each other.
Buffers randomBuffers(std::mt19937 &random) {
  Buffers buffers;
  for (size_t count = 3 + random() % 8; count > 0; --count)
    buffers.emplace_back(64 * (random() % 12), 64 * (1 + random() % (random() % 2 ? 1 : 6)));
  return buffers;
}

/// Kernels, collectives and messages.
std::string randomBody(std::mt19937 &random, const Buffers &buffers, size_t most) {
  auto buffer = [&] { return random() % buffers.size(); };
  std::string body;
  for (size_t count = 1 + random() % most; count > 0; --count) {
    size_t used = buffer();
    switch (random() % 5) {
    case 0:
      body += llvm::formatv("exec.send %b{0} to 0 bytes 64 tag 0 queue send\n", used);
      break;
    case 1:
      body += llvm::formatv("exec.recv %b{0} from 0 bytes 64 tag 0 queue receive\n", used);
      break;
    case 2:
      body += llvm::formatv("exec.collective all_reduce %b{0} -> %b{1} group 0 count 1 : f32 queue "
                            "communication\n",
                            used, buffer());
      break;
    default:
      body += llvm::formatv("exec.launch @k(%b{0}) -> (%b{1}) extent 1\n", used, buffer());
    }
  }
  return body;
}

/// What comes before rounds, in them and behind them; they run up to four times.
std::string randomRounds(std::mt19937 &random) {
  Buffers buffers = randomBuffers(random);
  std::string entries, rows = "@head", slots = "0";
  for (const char *name : {"head", "round", "tail"})
    entries += llvm::formatv("exec.entry @{0} {{\n{1}}\n", name, randomBody(random, buffers, 30));
  for (size_t round = 1 + random() % 4; round > 0; --round) {
    rows += ", @round";
    slots += ", 0";
  }
  return programWith(buffers,
                     entries + "exec.timetable [" + rows + ", @tail] slots [" + slots + ", 0]\n");
}

/// Holds whatever is not ordered against a test; returns how many instructions conflict.
int64_t expectOrder(const std::string &text) {
  Ordered ordered(text);
  EXPECT_GT(ordered.size(), 0u) << text;
  int64_t conflicts = 0;
  std::vector<llvm::BitVector> complete = ordered.completeBefore();
  for (size_t later = 0; later < ordered.size(); ++later)
    for (size_t earlier = 0; earlier < later; ++earlier) {
      if (!ordered.conflict(earlier, later))
        continue;
      ++conflicts;
      if (!complete[later].test(earlier)) {
        ADD_FAILURE() << "instruction " << later << " may run beside " << earlier << " of\n"
                      << text;
        return conflicts;
      }
    }
  return conflicts;
}

TEST(OrderQueues, OrdersWhateverTouchesTheSameBytes) {
  std::mt19937 random(11);
  int64_t conflicts = 0;
  for (int problem = 0; problem < 300 && !HasFailure(); ++problem) {
    Buffers buffers = randomBuffers(random);
    conflicts += expectOrder(programOf(buffers, randomBody(random, buffers, 120)));
  }
  EXPECT_GT(conflicts, 10000);
}

TEST(OrderQueues, OrdersWhatRoundsOfAStepTouchHoweverOftenTheyRun) {
  std::mt19937 random(12);
  int64_t conflicts = 0;
  for (int problem = 0; problem < 300 && !HasFailure(); ++problem)
    conflicts += expectOrder(randomRounds(random));
  EXPECT_GT(conflicts, 10000);
}

TEST(OrderQueues, WaitsForAMessageOncePerMicroBatch) {
  std::string body;
  constexpr size_t microBatches = 400;
  for (size_t microBatch = 0; microBatch < microBatches; ++microBatch)
    body += "exec.recv %b0 from 0 bytes 64 tag 0 queue receive\n"
            "exec.launch @forward(%b0) -> (%b1) extent 1\n"
            "exec.send %b1 to 1 bytes 64 tag 0 queue send\n";
  Ordered ordered(programOf({{0, 64}, {64, 64}}, body));
  ASSERT_EQ(ordered.size(), 3 * microBatches);
  for (size_t index = 6; index < ordered.size(); index += 3) {
    auto at = static_cast<int32_t>(index);
    // Where it is received was read a micro-batch ago, by what had waited for the receive then.
    EXPECT_EQ(ordered.after(index), (llvm::SmallVector<int32_t>{at - 2}));
    EXPECT_EQ(ordered.after(index + 1), (llvm::SmallVector<int32_t>{at - 1, at}));
    EXPECT_EQ(ordered.after(index + 2), (llvm::SmallVector<int32_t>{at + 1}));
  }
}

} // namespace
