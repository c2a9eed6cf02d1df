// SPDX-License-Identifier: Apache-2.0
// The interfaces through which an operation becomes code. An operation implements exactly one:
// element lowering (generated, fusible), kernel lowering (generated, a kernel of its own), or it is a
// view, a collective or a library call that the exec lowering knows by its own interface.

#ifndef AUTOPAR_INTERFACES_LOWERINGINTERFACE_TD
#define AUTOPAR_INTERFACES_LOWERINGINTERFACE_TD

include "mlir/IR/OpBase.td"

def ElementLoweringOpInterface : OpInterface<"ElementLoweringOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    Lowering of an operation whose result is a function of the result index: the value at one index,
    computed from operand elements. Such operations fuse with one another by substitution.

    An operation that combines elements along rows (reduction, softmax, normalization, matrix product)
    has a row domain and one or more row passes. A pass walks over the row, emits an element
    (emitRowElement) and combines it into accumulators (emitRowStart, emitRowStep); emitRowFinish turns
    the accumulators into row values. The loops belong to the emitter, which may share them between
    operations, run them over vectors of rows, and keep row elements in a buffer.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the scalar of result `result` at the loader's current index. Booleans are i1 scalars.
    }], "::mlir::Value", "emitElement",
      (ins "::mlir::OpBuilder &":$builder, "unsigned":$result, "::mlir::autopar::ElementLoader &":$loader)>,
    InterfaceMethod<[{
      Where an element of operand `operand` is read: a map from the result index (from the row domain's
      index for row operations) to the operand's index. Null where it depends on data. With a condition
      on the position (padding) it is where the element is read if the condition holds.
    }], "::mlir::AffineMap", "getOperandMap", (ins "unsigned":$operand), "", [{
      auto type = ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType());
      return ::mlir::AffineMap::getMultiDimIdentityMap(type.getRank(), $_op->getContext());
    }]>,
    InterfaceMethod<[{
      Of an operand whose map is null, where an element would be read if data told position 0: loops are chosen by it. Null
      where nothing else says where.
    }], "::mlir::AffineMap", "getMapBesidesData", (ins "unsigned":$operand), "", [{ return ::mlir::AffineMap(); }]>,
    InterfaceMethod<[{
      The result dimensions (row domain dimensions) whose position the formula looks at other than
      through operand maps.
    }], "::llvm::SmallVector<int64_t>", "getPositionDimensions", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{
      Positions along such a dimension at which the formula changes (where one operand of a concatenation
      ends and the next begins), ascending. Loops may be divided there.
    }], "::llvm::SmallVector<int64_t>", "getPositionBreaks", (ins "int64_t":$dim), "", [{ return {}; }]>,
    InterfaceMethod<[{
      How expensive one element is, apart from its operands: 0 for moving data, 1 for an addition, about
      16 for a transcendental function. Decides whether a value is recomputed or kept.
    }], "int64_t", "getElementCost", (ins), "", [{ return 1; }]>,
    InterfaceMethod<[{
      How often an element of operand `operand` is read per element of the result or row domain (an
      upper bound).
    }], "int64_t", "getReadsPerElement", (ins "unsigned":$operand), "", [{ return 1; }]>,

    InterfaceMethod<[{
      The iteration space of a row operation; false for pointwise operations.
    }], "::mlir::autopar::RowDomain", "getRowDomain", (ins), "", [{ return {}; }]>,
    InterfaceMethod<[{
      Number of passes over a row.
    }], "int64_t", "getRowPassCount", (ins), "", [{ return 0; }]>,
    InterfaceMethod<[{
      Emits the row element of pass `pass` at the loader's current index of the row domain. Passes after
      the first may start from loader.rowElement and loader.rowValues. It must be a function of these
      alone: the emitter may keep it or emit it again.
    }], "::mlir::Value", "emitRowElement",
      (ins "::mlir::OpBuilder &":$builder, "int64_t":$pass, "::mlir::autopar::ElementLoader &":$loader), "", [{
      return loader.load(builder, 0);
    }]>,
    InterfaceMethod<[{
      The accumulators' initial values.
    }], "::llvm::SmallVector<::mlir::Value>", "emitRowStart",
      (ins "::mlir::OpBuilder &":$builder, "int64_t":$pass), "", [{ return {}; }]>,
    InterfaceMethod<[{
      Combines one row element into the accumulators and returns the new ones.
    }], "::llvm::SmallVector<::mlir::Value>", "emitRowStep",
      (ins "::mlir::OpBuilder &":$builder, "int64_t":$pass, "::mlir::Value":$element,
           "::mlir::ValueRange":$accumulators, "::mlir::autopar::ElementLoader &":$loader), "", [{
      return ::llvm::to_vector(accumulators);
    }]>,
    InterfaceMethod<[{
      Whether parts of a row may have accumulators of their own, for emitRowCombine to join.
    }], "bool", "isRowDivisible", (ins), "", [{ return true; }]>,
    InterfaceMethod<[{
      Joins the accumulators of two parts of a row; which comes first does not matter.
    }], "::llvm::SmallVector<::mlir::Value>", "emitRowCombine",
      (ins "::mlir::OpBuilder &":$builder, "int64_t":$pass, "::mlir::ValueRange":$first,
           "::mlir::ValueRange":$second), "", [{
      return ::llvm::to_vector(first);
    }]>,
    InterfaceMethod<[{
      Row values from the final accumulators.
    }], "::llvm::SmallVector<::mlir::Value>", "emitRowFinish",
      (ins "::mlir::OpBuilder &":$builder, "int64_t":$pass, "::mlir::ValueRange":$accumulators), "", [{
      return ::llvm::to_vector(accumulators);
    }]>,
  ];
}

def KernelLoweringOpInterface : OpInterface<"KernelLoweringOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    Lowering of an operation that needs a loop nest of its own (sort, scatter, cumulative).
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the whole kernel body: reads `inputs`, writes `outputs` (flat memrefs of row-major elements;
      booleans are i8, unsigned integers signless), for the outer iterations [begin, end).
    }], "void", "emitKernel",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$inputs,
           "::mlir::ValueRange":$outputs, "::mlir::Value":$begin, "::mlir::Value":$end, "int64_t":$grain), "", [{
      llvm_unreachable("asked of an operation for GPUs alone");
    }]>,
    InterfaceMethod<[{
      Whether there is no emitKernel, but always an emitGpuKernel.
    }], "bool", "isForGpusAlone", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Whether emitKernel is for CPUs alone.
    }], "bool", "isForCpusAlone", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
      Emits a body of the operation's own for a GPU and returns its blocks, threads and, if it has any, bytes of
      dynamic shared memory; nothing where each outer iteration is a thread.
    }], "::llvm::SmallVector<int64_t>", "emitGpuKernel",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$inputs, "::mlir::ValueRange":$outputs), "", [{
      return {};
    }]>,
    InterfaceMethod<[{
      Number of independent outer iterations; 1 if the kernel cannot be split. `grain`: how many neighbouring
      elements one iteration takes care of, where the operation leaves that open.
    }], "int64_t", "getKernelExtent", (ins "int64_t":$grain)>,
    InterfaceMethod<[{
      Whether the result is the first operand, changed in some places: the kernel need not copy the rest
      when the result takes the operand's place.
    }], "bool", "changesFirstOperand", (ins), "", [{ return false; }]>,
  ];
}

#endif
