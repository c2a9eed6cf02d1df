// SPDX-License-Identifier: Apache-2.0
// Every operation says what it does in mixed precision, or is in the list of those that are never
// asked.
#include "autopar/InitAll.h"
#include "autopar/Interfaces/PrecisionInterface.h"
#include "mlir/IR/MLIRContext.h"
#include <gtest/gtest.h>

#include <set>

using namespace mlir;
using namespace mlir::autopar;

TEST(Precision, EveryOperationSaysWhatItDoesOrIsListed) {
  const std::set<std::string> neverAsked = {
      "micro_batch", "micro_batch_index", "accumulate", "stack_micro_batches", "carried", "carry",
      "transfer", "send", "receive", "hold", "shard_index", "all_reduce", "all_gather",
      "reduce_scatter", "all_to_all", "permute", "reshard", "group", "yield", "cluster", "mesh",
      "origin", "fence", "update", "formula", "store_on_host", "fetch_from_host", "mark_positive",
      "grouped_dot_tiles", "grouped_dot_rhs_grad_tiles", "block_dot", "keep_marked", "round_begin",
      "round_end", "round_slice", "insert_part",
      // A profile database says their element types.
      "profiled", "profiled_backward", "profiled_weight_gradient"};
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("autopar")) {
    std::string op = name.getStringRef().drop_front(strlen("autopar.")).str();
    EXPECT_NE(name.hasInterface<PrecisionOpInterface>(), neverAsked.count(op) == 1)
        << op << ": say in PrecisionModels.cpp what it does in narrow floats";
  }
}
