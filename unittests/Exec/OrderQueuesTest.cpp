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

/// A program of one entry over one arena: buffers by offset and bytes, instructions as text.
std::string programOf(llvm::ArrayRef<std::pair<int64_t, int64_t>> buffers, llvm::StringRef body) {
  std::string text = "exec.program @p arena [65536, 0, 0] threads 1 {\n";
  for (auto [number, buffer] : llvm::enumerate(buffers))
    text += llvm::formatv("%b{0} = exec.buffer \"b{0}\" device bytes {1} at {2} : tensor<{1}xi8>\n",
                          number, buffer.second, buffer.first);
  return text + "exec.entry @step {\n" + body.str() + "}\n}\n";
}

/// The instructions of a program once their queues are ordered.
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
    module->walk([&](EntryOp entry) {
      for (Operation &op : entry.getBody().front())
        instructions.push_back(cast<InstructionOpInterface>(op));
    });
  }

  size_t size() const { return instructions.size(); }
  llvm::SmallVector<int32_t> after(size_t index) const {
    auto after = instructions[index]->getAttrOfType<DenseI32ArrayAttr>("after");
    return after ? llvm::to_vector(after.asArrayRef()) : llvm::SmallVector<int32_t>();
  }
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
};

/// Kernels, collectives and messages over buffers that lie across each other.
std::string randomProgram(std::mt19937 &random) {
  std::vector<std::pair<int64_t, int64_t>> buffers;
  for (size_t count = 3 + random() % 8; count > 0; --count)
    buffers.emplace_back(64 * (random() % 12), 64 * (1 + random() % (random() % 2 ? 1 : 6)));
  auto buffer = [&] { return random() % buffers.size(); };
  std::string body;
  for (size_t count = 1 + random() % 120; count > 0; --count) {
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
  return programOf(buffers, body);
}

TEST(OrderQueues, OrdersWhateverTouchesTheSameBytes) {
  std::mt19937 random(11);
  int64_t conflicts = 0;
  for (int problem = 0; problem < 300; ++problem) {
    std::string text = randomProgram(random);
    Ordered ordered(text);
    ASSERT_GT(ordered.size(), 0u) << text;
    std::vector<llvm::BitVector> complete = ordered.completeBefore();
    for (size_t later = 0; later < ordered.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier)
        if (ordered.conflict(earlier, later)) {
          ++conflicts;
          ASSERT_TRUE(complete[later].test(earlier))
              << "instruction " << later << " may run beside " << earlier << " of\n"
              << text;
        }
  }
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
