// SPDX-License-Identifier: Apache-2.0
// Parsing, printing and verification of shardings and strategies.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

#include "autopar/Dialect/AutoPar/IR/AutoParEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "autopar/Dialect/AutoPar/IR/AutoParAttributes.cpp.inc"

void AutoParDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "autopar/Dialect/AutoPar/IR/AutoParAttributes.cpp.inc"
      >();
}

/// `{"x", "y"}`
static void printAxes(AsmPrinter &printer, ArrayAttr axes) {
  printer << "{";
  llvm::interleaveComma(axes, printer, [&](Attribute axis) { printer << axis; });
  printer << "}";
}

static FailureOr<ArrayAttr> parseAxes(AsmParser &parser) {
  SmallVector<Attribute> axes;
  auto parseAxis = [&]() -> ParseResult {
    std::string axis;
    if (parser.parseString(&axis))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), axis));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseAxis, " in axis list"))
    return failure();
  return ArrayAttr::get(parser.getContext(), axes);
}

static ParseResult parseAxesList(AsmParser &parser, SmallVectorImpl<ArrayAttr> &lists) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    FailureOr<ArrayAttr> axes = parseAxes(parser);
    if (failed(axes))
      return failure();
    lists.push_back(*axes);
    return success();
  });
}

static void printAxesList(AsmPrinter &printer, ArrayRef<ArrayAttr> lists) {
  printer << "[";
  llvm::interleaveComma(lists, printer, [&](ArrayAttr axes) { printAxes(printer, axes); });
  printer << "]";
}

//===-- Sharding -----------------------------------------------------------------------------===//

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", ";
  printAxesList(printer, getDims());
  if (!getPartial().empty()) {
    printer << ", partial = ";
    printAxes(printer, getPartial());
    printer << " " << stringifyReduction(getReduction());
  }
  printer << ">";
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<ArrayAttr> dims;
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma() ||
      parseAxesList(parser, dims))
    return {};
  ArrayAttr partial = ArrayAttr::get(parser.getContext(), {});
  ReductionKind reduction = ReductionKind::Sum;
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("partial") || parser.parseEqual())
      return {};
    FailureOr<ArrayAttr> axes = parseAxes(parser);
    StringRef word;
    SMLoc where = parser.getCurrentLocation();
    if (failed(axes) || parser.parseKeyword(&word))
      return {};
    std::optional<ReductionKind> kind = symbolizeReduction(word);
    if (!kind) {
      parser.emitError(where, "expected sum, prod, max, min, and or or");
      return {};
    }
    partial = *axes;
    reduction = *kind;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(parser.getContext(), mesh, dims, partial, reduction);
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError, FlatSymbolRefAttr,
                                   ArrayRef<ArrayAttr> dims, ArrayAttr partial, ReductionKind) {
  llvm::StringSet<> seen;
  auto check = [&](ArrayAttr axes) -> LogicalResult {
    for (Attribute axis : axes)
      if (!seen.insert(cast<StringAttr>(axis).getValue()).second)
        return emitError() << "axis " << axis << " appears more than once in a sharding";
    return success();
  };
  for (ArrayAttr axes : dims)
    if (failed(check(axes)))
      return failure();
  return check(partial);
}

//===-- Strategy -----------------------------------------------------------------------------===//

void StrategyAttr::print(AsmPrinter &printer) const {
  printer << "<" << getMesh() << ", ";
  printAxesList(printer, getFactors());
  printer << ">";
}

Attribute StrategyAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<ArrayAttr> factors;
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma() ||
      parseAxesList(parser, factors) || parser.parseGreater())
    return {};
  return StrategyAttr::get(parser.getContext(), mesh, factors);
}
