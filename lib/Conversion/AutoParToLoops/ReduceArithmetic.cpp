// SPDX-License-Identifier: Apache-2.0
// The kinds of reductions.
#include "ReduceArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

Value mlir::autopar::reduceStart(Scalars &s, ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
  case ReduceKind::Or:
    return s.integer(0);
  case ReduceKind::Prod:
  case ReduceKind::And:
    return s.isBool() ? s.highest() : s.integer(1);
  case ReduceKind::Max:
    return s.lowest();
  case ReduceKind::Min:
    return s.highest();
  }
  llvm_unreachable("unknown reduce kind");
}

Value mlir::autopar::reduceStep(Scalars &s, ReduceKind kind, Value sum, Value element) {
  switch (kind) {
  case ReduceKind::Sum:
    return s.addRelaxed(sum, element);
  case ReduceKind::Prod:
    return s.mulRelaxed(sum, element);
  case ReduceKind::Max:
    return s.max(sum, element);
  case ReduceKind::Min:
    return s.min(sum, element);
  case ReduceKind::And:
    return s.math<arith::AndIOp>(sum, element);
  case ReduceKind::Or:
    return s.math<arith::OrIOp>(sum, element);
  }
  llvm_unreachable("unknown reduce kind");
}

Value mlir::autopar::runningStep(Scalars &s, ReduceKind kind, Value sum, Value element) {
  switch (kind) {
  case ReduceKind::Sum:
    return s.add(sum, element);
  case ReduceKind::Prod:
    return s.mul(sum, element);
  default:
    return reduceStep(s, kind, sum, element);
  }
}
