// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/ByteSums.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr ByteDots kAll[] = {ByteDots::Avx2, ByteDots::Vnni};

StringRef mlir::autopar::nameOf(ByteDots dots) { return dots == ByteDots::Avx2 ? "avx2" : "vnni"; }

std::optional<ByteDots> mlir::autopar::byteDotsOf(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(kByteSum);
  for (ByteDots dots : kAll)
    if (name && name == nameOf(dots))
      return dots;
  return std::nullopt;
}
