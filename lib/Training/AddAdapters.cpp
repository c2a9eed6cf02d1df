// SPDX-License-Identifier: Apache-2.0
// The pass autopar-add-adapters: products with matrices of the model get low-rank adapters.
#include "autopar/Training/Adapters.h"

#include "LeadingOn.h"
#include "NamePatterns.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Dialect/AutoPar/IR/AdapterNames.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/DrawnOrigin.h"
#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Training/Passes.h"
#include "autopar/Training/StepSignature.h"
#include "llvm/ADT/MapVector.h"

#include <cmath>

namespace mlir::autopar {
#define GEN_PASS_DEF_ADDADAPTERSPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;

Result<LowRank> LowRank::parse(const std::string &text) {
  Result<Call> parsed = Call::parse("adapters", text);
  if (!parsed)
    return parsed.status();
  Call &call = *parsed;
  if (call.name != "lora")
    return call.errorAt(call.namePosition, "unknown adapters; expected lora(rank=8, alpha=16)");
  if (!call.arguments.empty())
    return call.errorAt(call.namePosition, "lora takes options (rank=8) only,");
  LowRank adapters;
  double rank = call.take("rank", static_cast<double>(adapters.rank));
  if (!(rank >= 1 && rank <= 1e6) || rank != std::floor(rank))
    return call.errorAt(call.namePosition, "rank: expected a whole number of at least 1");
  adapters.rank = static_cast<int64_t>(rank);
  adapters.alpha = call.take("alpha", rank);
  if (!std::isfinite(adapters.alpha) || adapters.alpha == 0)
    return call.errorAt(call.namePosition, "alpha: expected a number other than 0");
  AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
  return adapters;
}

namespace {

/// What PEFT draws A from: uniform within 1 / sqrt(in), He's with a gain of sqrt(1/3).
constexpr const char *kFirst = "kaiming_uniform(0.57735026918962576)";
/// B, so that a model with new adapters computes what it did.
constexpr const char *kSecond = "zeros";

/// A product x W with a matrix that parameters and constants alone make, W as it stands or
/// transposed.
struct MatrixProduct {
  DotGeneralOp op;
  SmallVector<BlockArgument> parameters; ///< that the matrix is made of, in their order

  int64_t in() { return op.getRhs().getType().getDimSize(op.getRhsContract()[0]); }
  int64_t out() { return op.getRhs().getType().getDimSize(op.getRhsFree()[0]); }
};

class AdapterBuilder {
public:
  AdapterBuilder(ModuleOp module, func::FuncOp function, LowRank adapters, bool areDrawn)
      : module(module), function(function), adapters(adapters), areDrawn(areDrawn), symbols(module),
        ids(function.getBody().front()) {
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (isMemoryEffectFree(&op) &&
          llvm::all_of(op.getOperands(), [&](Value value) { return isFixed(value); }))
        fixed.insert(&op);
    }
  }

  LogicalResult build(NamePatterns &patterns) {
    SmallVector<MatrixProduct> products = findProducts(patterns.empty());
    llvm::erase_if(products, [&](const MatrixProduct &product) {
      return !patterns.empty() && llvm::none_of(product.parameters, [&](BlockArgument parameter) {
        return patterns.match(ParameterNames(parameter)) != NamePatterns::Match::None;
      });
    });
    for (MatrixProduct &product : withOthersOfTheirMatrices(products))
      add(product);
    if (failed(patterns.checkUsed(module, "matrix of a product")))
      return failure();
    if (known.empty())
      return module.emitError(
          "adapters: there is nothing to adapt: expected products of the model's "
          "matrices with what it computes, before the last");
    emitRemark(function.getLoc()) << known.size() << (known.size() == 1 ? " matrix" : " matrices")
                                  << " adapted by rank " << adapters.rank << ", " << numbers
                                  << " numbers";
    return success();
  }

private:
  /// Whether parameters and constants alone make a value.
  bool isFixed(Value value) const {
    return isParameter(value) || (value.getDefiningOp() && fixed.contains(value.getDefiningOp()));
  }

  /// Whether the right side is one matrix for all rows of the left.
  static bool hasMatrix(DotGeneralOp dot) {
    return dot.getLhsBatch().empty() && dot.getRhsContract().size() == 1 &&
           dot.getRhsFree().size() == 1;
  }

  MatrixProduct productOf(Operation *op) const {
    auto dot = dyn_cast<DotGeneralOp>(op);
    if (!dot || !hasMatrix(dot) || !isFixed(dot.getRhs()) || isFixed(dot.getLhs()))
      return {};
    MatrixProduct product{dot, {}};
    DenseSet<Value> seen;
    SmallVector<Value> worklist{dot.getRhs()};
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      if (!seen.insert(value).second)
        continue;
      if (isParameter(value))
        product.parameters.push_back(cast<BlockArgument>(value));
      else if (Operation *producer = value.getDefiningOp())
        llvm::append_range(worklist, producer->getOperands());
    }
    llvm::sort(product.parameters, [](BlockArgument a, BlockArgument b) {
      return a.getArgNumber() < b.getArgNumber();
    });
    if (product.parameters.empty())
      return {}; // of constants
    return product;
  }

  /// In their order; without the last ones and routers (as PEFT's "all-linear" leaves out the last)
  /// where `onlyInner`.
  SmallVector<MatrixProduct> findProducts(bool onlyInner) {
    Block &block = function.getBody().front();
    DenseSet<Operation *> inner =
        leadingOn(block, [&](Operation *op) { return static_cast<bool>(productOf(op).op); });
    SmallVector<MatrixProduct> products;
    for (Operation &op : block)
      if (MatrixProduct product = productOf(&op); product.op && (!onlyInner || inner.contains(&op)))
        products.push_back(product);
    return products;
  }

  /// An adapter is of its matrix: what else is multiplied by that has it too, also what parameters
  /// alone make, such as DeBERTa's embeddings of distances.
  SmallVector<MatrixProduct> withOthersOfTheirMatrices(ArrayRef<MatrixProduct> products) {
    SmallVector<MatrixProduct> all(products);
    llvm::MapVector<Value, SmallVector<BlockArgument>> matrices;
    DenseSet<Operation *> chosen;
    for (MatrixProduct product : products) {
      matrices.insert({product.op.getRhs(), product.parameters});
      chosen.insert(product.op);
    }
    for (auto dot : function.getBody().front().getOps<DotGeneralOp>())
      if (auto matrix = matrices.find(dot.getRhs());
          matrix != matrices.end() && hasMatrix(dot) && !chosen.contains(dot))
        all.push_back({dot, matrix->second});
    return all;
  }

  //===-- what is added ----------------------------------------------------------------------===//

  /// The largest of what a matrix is made of, its name without the word `weight`: as a module is
  /// called that has it.
  static std::string moduleOf(const MatrixProduct &product) {
    ParameterNames names(*llvm::max_element(product.parameters, [](Value a, Value b) {
      return FormulaBuilder::typeOf(a).getNumElements() <
             FormulaBuilder::typeOf(b).getNumElements();
    }));
    StringRef name = names.sources.size() == 1 ? names.sources.front() : StringRef(names.own);
    return adaptedModule(name);
  }

  BlockArgument parameter(const Twine &name, ArrayRef<int64_t> shape, Type element,
                          StringRef drawn) {
    OpBuilder builder(function);
    auto type = RankedTensorType::get(shape, element);
    OriginOp origin = OriginOp::create(builder, function.getLoc(), name.str(), type, StringAttr(),
                                       /*offset=*/0);
    if (areDrawn)
      origin->setAttr(kDrawnAttribute, builder.getStringAttr(drawn));
    StringRef symbol = symbols.insert(origin);
    numbers += type.getNumElements();
    return addArgument(function, type, symbol,
                       {builder.getNamedAttr("autopar.origin", FlatSymbolRefAttr::get(origin)),
                        builder.getNamedAttr(kAdapterAttribute, builder.getUnitAttr())});
  }

  /// A and B; one pair for all products with a matrix.
  std::pair<BlockArgument, BlockArgument> matricesFor(MatrixProduct &product) {
    std::pair<BlockArgument, BlockArgument> &pair = known[product.op.getRhs()];
    if (pair.first)
      return pair;
    Type element = product.op.getRhs().getType().getElementType();
    if (!element.isF64())
      element = Float32Type::get(function.getContext());
    std::string name = moduleOf(product);
    pair.first = parameter(name + kAdapterA, {adapters.rank, product.in()}, element, kFirst);
    pair.second = parameter(name + kAdapterB, {product.out(), adapters.rank}, element, kSecond);
    return pair;
  }

  void add(MatrixProduct &product) {
    auto [first, second] = matricesFor(product);
    DotGeneralOp op = product.op;
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfter(op);
    FormulaBuilder b(builder, op.getLoc());
    Type element = op.getType().getElementType();
    int64_t depth = op.getLhsContract()[0];
    Value low = DotGeneralOp::create(builder, op.getLoc(), b.cast(op.getLhs(), element),
                                     b.cast(first, element), ArrayRef<int64_t>{},
                                     ArrayRef<int64_t>{}, depth, ArrayRef<int64_t>{1});
    int64_t last = FormulaBuilder::typeOf(low).getRank() - 1;
    Value scaled = b.scale(low, adapters.alpha / static_cast<double>(adapters.rank));
    Value high =
        DotGeneralOp::create(builder, op.getLoc(), scaled, b.cast(second, element),
                             ArrayRef<int64_t>{}, ArrayRef<int64_t>{}, last, ArrayRef<int64_t>{1});
    Value sum = b.add(op.getResult(), high);
    op.getResult().replaceAllUsesExcept(sum, sum.getDefiningOp());
    for (Operation *added = op->getNextNode(); added != sum.getDefiningOp()->getNextNode();
         added = added->getNextNode())
      ids.name(added, getOpId(op) + "/lora/" + added->getName().stripDialect());
  }

  ModuleOp module;
  func::FuncOp function;
  LowRank adapters;
  bool areDrawn;
  SymbolTable symbols;
  DenseSet<Operation *> fixed; ///< what parameters and constants alone make
  UniqueIds ids;
  llvm::MapVector<Value, std::pair<BlockArgument, BlockArgument>> known; ///< by the matrix
  int64_t numbers = 0;
};

struct AddAdaptersPass : mlir::autopar::impl::AddAdaptersPassBase<AddAdaptersPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      module.emitError("expected a function @main of one block to adapt");
      return signalPassFailure();
    }
    Result<LowRank> wanted = LowRank::parse(adapters);
    if (!wanted) {
      module.emitError() << wanted.status().message();
      return signalPassFailure();
    }
    FailureOr<NamePatterns> patterns = NamePatterns::of(module, "adapt", adapt);
    if (failed(patterns) ||
        failed(AdapterBuilder(module, function, *wanted, drawn).build(*patterns)))
      signalPassFailure();
  }
};

} // namespace
