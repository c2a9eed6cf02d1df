// SPDX-License-Identifier: Apache-2.0
// Draws makers one after the other, the target among them.
#include "RandomGraph.h"

#include "Drawer.h"

using namespace mlir;
using namespace mlir::autopar;
using namespace autopar_law;

/// In a fixed order, those of one name side by side.
static SmallVector<MakerRow> allMakers() {
  return llvm::to_vector(llvm::concat<const MakerRow>(elementwiseMakers(), contractionMakers(),
                                                      reductionMakers(), movementMakers(),
                                                      generationMakers(), microBatchMakers()));
}

/// Something elementwise on the result, so that its user can ask for any sharding of it.
static Value use(Drawer &d, const DrawnValue &drawn) {
  auto type = d.typeOf(drawn);
  if (type.getElementType().isInteger(1))
    return d.unary(UnaryKind::Not, drawn.value);
  return d.unary(UnaryKind::Neg, drawn.value);
}

std::vector<std::string> autopar_law::makerNames() {
  std::vector<std::string> names;
  for (const MakerRow &row : allMakers())
    if (names.empty() || names.back() != row.name)
      names.push_back(row.name.str());
  return names;
}

DrawnModule autopar_law::drawModule(MLIRContext &context, uint64_t seed, StringRef target,
                                    int size) {
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  Drawer d(context, seed);
  DrawnModule drawn;
  drawn.module = ModuleOp::create(d.loc);
  d.builder.setInsertionPointToEnd(drawn.module->getBody());
  d.function = func::FuncOp::create(d.builder, d.loc, "main", d.builder.getFunctionType({}, {}));
  d.builder.setInsertionPointToStart(d.function.addEntryBlock());
  SmallVector<MakerRow> makers = allMakers();
  SmallVector<const MakerRow *> candidates;
  for (const MakerRow &row : makers)
    if (row.name == target)
      candidates.push_back(&row);
  int targetAt = d.below(size);
  SmallVector<Value> results;
  for (int i = 0; i < size; ++i) {
    const MakerRow *row =
        i == targetAt ? candidates[d.below(candidates.size())] : &makers[d.below(makers.size())];
    std::optional<DrawnValue> made;
    for (int attempt = 0; attempt < (i == targetAt ? 200 : 20) && !made; ++attempt)
      made = row->make(d);
    if (!made)
      continue;
    d.pool.push_back(*made);
    if (i != targetAt)
      continue;
    // The operation itself may stand behind a guard (a pool's clamp): find it by name.
    Operation *op = made->value.getDefiningOp();
    while (op->getName().stripDialect() != target)
      op = op->getOperand(0).getDefiningOp();
    drawn.target = op;
    results.push_back(use(d, *made));
  }
  // What nobody reads becomes a result too.
  for (const DrawnValue &value : d.pool)
    if (value.value.use_empty() && results.size() < 4)
      results.push_back(value.value);
  func::ReturnOp::create(d.builder, d.loc, results);
  d.function.setFunctionType(
      d.builder.getFunctionType(d.function.getArgumentTypes(), ValueRange(results).getTypes()));
  int counter = 0;
  for (Operation &op : d.function.getBody().front().without_terminator())
    setOpId(&op, op.getName().stripDialect() + "_" + Twine(counter++));
  for (unsigned i = 0; i < results.size(); ++i)
    d.function.setResultAttr(i, "autopar.name", d.builder.getStringAttr("y" + std::to_string(i)));
  return drawn;
}