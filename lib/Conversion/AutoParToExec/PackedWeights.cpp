// SPDX-License-Identifier: Apache-2.0
// Weights in the library's own layout. What is known at load is packed there, once for all products
// that read it alike (the steps of a recurrence, layers that share weights), and is not kept as it
// was. What a step makes or replaces is packed in the step where many small products read it.
#include "LibraryCall.h"

#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"
#include "autopar/Transforms/FewRows.h"
#include "autopar/Transforms/HeldForm.h"

using namespace mlir;
using namespace mlir::autopar;

/// Geometries for which a weight is packed; what reads it by another one reads it as it lies.
static constexpr size_t kMostForms = 2;
/// Products from which on it pays to pack what they read in a step, and rows up to which they gain
/// by it: 8 rows take half the time, 32 four fifths (256 to 512 by 512 to 2,048, AVX-512).
static constexpr int64_t kManyProducts = 8;
static constexpr int64_t kMostRowsPacked = 32;

void ProgramBuilder::countReaders(Value value, Readers &readers) const {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    auto group = dyn_cast<GroupOp>(user);
    if (isView(user) || isRoundedByProduct(user)) {
      for (Value result : user->getResults())
        countReaders(result, readers);
    } else if (auto product = dyn_cast<DotGeneralOp>(user);
               product && use.getOperandNumber() == 1) {
      readers.areAlike &= !readers.multiplied || product.getLhs().getType() == readers.multiplied;
      readers.multiplied = product.getLhs().getType();
      // A product counts once for all micro-batches, each of which has it written out.
      StringRef name = getOpId(product).split('@').first;
      readers.products += name.empty() || readers.names.insert(name).second;
    } else if (user->getNumResults() > 0 && runsAtLoad(user)) {
      continue; // the step does not read it
    } else if (group) {
      countReaders(group.getBody().getArgument(use.getOperandNumber()), readers);
    } else {
      ++readers.others;
    }
  }
}

bool ProgramBuilder::paysToPack(Value root) {
  auto [found, isNew] = packed.try_emplace(root);
  PackedWeight &weight = found->second;
  if (isNew) {
    Readers readers;
    countReaders(root, readers);
    bool isReadAlike = readers.products > 0 && readers.areAlike && readers.others == 0;
    weight.pays = isLoadTime(root) ? isReadAlike || countStepReads(root) == 1
                                   : readers.products >= kManyProducts;
  }
  return weight.pays;
}

static bool hasFewRows(DotGeneralOp product) {
  int64_t rows = 1;
  for (int64_t dim : product.getLhsFree())
    rows *= product.getLhs().getType().getDimSize(dim);
  return rows <= kMostRowsPacked;
}

std::optional<PackSource> ProgramBuilder::packSource(Value value, DotGeneralOp product) {
  if (!options.packWeights)
    return std::nullopt;
  bool atLoad = isLoadTime(value);
  SmallVector<ViewOpInterface> views;
  Value root = value;
  while (auto view = root.getDefiningOp<ViewOpInterface>()) {
    if (isLaidOut(root))
      return std::nullopt; // for others that read it as it lies
    views.push_back(view);
    root = view->getOperand(0);
  }
  if (!atLoad && !(product && hasFewRows(product)))
    return std::nullopt;
  auto argument = dyn_cast<BlockArgument>(root);
  bool isKept = atLoad && argument && arguments[argument.getArgNumber()].buffer;
  if (heldFormOf(root) == HeldForm::AsItIs || !paysToPack(root) ||
      (isKept && packed[root].forms.empty()))
    return std::nullopt;
  PackSource source{root, atLoad ? denseStrides(cast<RankedTensorType>(root.getType()).getShape())
                                 : viewOf(root).strides};
  for (ViewOpInterface view : llvm::reverse(views)) {
    std::optional<ViewLayout> layout = view.getLayout(source.strides);
    if (!layout)
      return std::nullopt;
    source.strides = layout->strides;
    source.offset += layout->offset;
  }
  return source;
}

Value ProgramBuilder::packedForm(DotGeneralOp op, const PackSource &source,
                                 exec::MatmulGeometryAttr geometry) {
  SmallVector<PackedForm> &forms = packed[source.root].forms;
  size_t count = 0;
  for (const PackedForm &form : forms) {
    if (form.offset == source.offset && form.geometry == geometry)
      return form.buffer;
    count += form.offset == source.offset;
  }
  ::autopar::Result<int64_t> bytes = ::autopar::cpumath::packedBytes(exec::toArtifact(geometry));
  if (count == kMostForms || !bytes.isOk())
    return {};
  bool atLoad = isLoadTime(source.root);
  Value plain = atLoad ? readAtLoad(source.root) : viewOf(source.root).buffer;
  Type element = cast<RankedTensorType>(source.root.getType()).getElementType();
  plain = viewFrom({plain, source.strides}, source.offset, element, op).buffer;
  Value buffer =
      createBuffer(nameOf(source.root) + ".packed",
                   RankedTensorType::get({*bytes}, IntegerType::get(op.getContext(), 8)));
  auto pack =
      exec::PackOp::create(atLoad ? loadBuilder : step(), op.getLoc(), plain, buffer, geometry);
  describe(pack, op, "pack", 0);
  forms.push_back({source.offset, geometry, buffer});
  return buffer;
}
