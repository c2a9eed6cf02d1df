// SPDX-License-Identifier: Apache-2.0
// The entities of a program that are not instructions: program, buffers, ports, entries, timetable,
// ranks.

#ifndef AUTOPAR_EXEC_OPS_TD
#define AUTOPAR_EXEC_OPS_TD

include "autopar/Dialect/Exec/IR/InstructionOps.td"
include "mlir/IR/SymbolInterfaces.td"

def Exec_ProgramOp : Exec_Op<"program", [Symbol, SymbolTable, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "the program of a rank class";
  let description = [{
    Holds no rank numbers. `arena` gives the bytes of each space (device, pinned host, disk) once memory is planned;
    `threads` is the number of threads per rank that scratch was planned for.

    ```
    exec.program @class0 arena [4096, 0, 0] threads 1 kernels @kernels { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<DenseI64ArrayAttr>:$arena, I64Attr:$threads,
                       OptionalAttr<FlatSymbolRefAttr>:$kernels);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name (`arena` $arena^)? `threads` $threads (`kernels` $kernels^)? attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Exec_BufferOp : Exec_Op<"buffer", [Pure]> {
  let summary = "a range of an arena";
  let description = [{
    `offset` is absent until memory is planned. `binding` marks the control buffer and the rank values.
    `%0 = exec.buffer "h" device bytes 2048 at 0 : tensor<8x64xf32>`
  }];
  let arguments = (ins StrAttr:$name, Exec_SpaceAttr:$space, I64Attr:$bytes, OptionalAttr<I64Attr>:$offset, TypeAttr:$type,
                       DefaultValuedAttr<Exec_BindingAttr, "::mlir::exec::Binding::None">:$binding,
                       DefaultValuedAttr<I64Attr, "1">:$slots, DefaultValuedAttr<I64Attr, "0">:$slotStride);
  let results = (outs Exec_BufferType:$result);
  let assemblyFormat = "$name $space `bytes` $bytes (`at` $offset^)? (`binding` $binding^)? `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType tensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "a buffer of its own over bytes of another";
  let description = [{
    `%1 = exec.view "h.t" %0 at 128 bytes 64 : tensor<16xf32>`: bytes from the start of `base`. With several slots, those
    of slot s lie s * slotStride further.
  }];
  let arguments = (ins StrAttr:$name, Exec_BufferType:$base, I64Attr:$offset, I64Attr:$bytes, TypeAttr:$type,
                       DefaultValuedAttr<I64Attr, "1">:$slots, DefaultValuedAttr<I64Attr, "0">:$slotStride);
  let results = (outs Exec_BufferType:$result);
  let assemblyFormat = "$name $base `at` $offset `bytes` $bytes `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType tensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Exec_HandOnOp : Exec_Op<"hand_on"> {
  let summary = "what an entry that is run several times leaves for the next time";
  let description = [{
    `exec.hand_on %new to %old`: when the entry that several rows of the timetable run begins again, `old` holds what
    `new` held when it ended. Nobody reads `old` behind the last time. Both have the same bytes; memory planning lets them
    lie at one place, or has them copied.
  }];
  let arguments = (ins Exec_BufferType:$from, Exec_BufferType:$to);
  let assemblyFormat = "$from `to` $to attr-dict";
  let hasVerifier = 1;
}

def Exec_PortOp : Exec_Op<"port"> {
  let summary = "a named tensor that enters or leaves";
  let description = [{
    `type` is the global one. A parameter comes from bytes of a `file` (from `offset`), from `value` (the constants
    section), or is absent; then it may be `drawn`, as `--init` words it, where nobody gives its values. Without a buffer only read instructions fetch it. A state is replaced by every step; one
    `fromModel` starts as a parameter does, others start at zero. A metric that `guards` must be finite for the step
    to change any state; one that is `evaluated` is known without a step, too. `limits` are the least and the most that an integer input may hold, besides `exception`. With
    `microBatches` the first two dimensions of an input or output are micro-batches x samples, which the outside
    knows as one. A parameter or state that the program knows in another shape than the model has `modelShape`; a matrix
    that the model's source knows by another name, transposed, `transposeOf`. `varying` dimensions of an input or
    output have as many positions as a step is given ({dim, extent, least, step}, the step 1 if nothing is said); an input
    that is `missing` an extent says by how many steps it is below its most, and is set by the runtime.
    `exec.port parameter "w1" : tensor<64x256xf32> {file = "mlp.onnx", offset = 4096 : i64}`
  }];
  let arguments = (ins Exec_RoleAttr:$role, StrAttr:$name, Optional<Exec_BufferType>:$buffer, TypeAttr:$type,
                       OptionalAttr<StrAttr>:$file, DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<ElementsAttr>:$value, UnitAttr:$fromModel, UnitAttr:$guards, UnitAttr:$evaluated,
                       OptionalAttr<DenseI64ArrayAttr>:$limits, OptionalAttr<I64Attr>:$exception,
                       DefaultValuedAttr<I64Attr, "1">:$microBatches, OptionalAttr<DenseI64ArrayAttr>:$modelShape,
                       OptionalAttr<StrAttr>:$transposeOf, OptionalAttr<StrAttr>:$drawn,
                       OptionalAttr<ArrayAttr>:$varying, OptionalAttr<StrAttr>:$missing);
  let assemblyFormat = "$role $name ($buffer^)? `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType tensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
  }];
}

def Exec_EntryOp : Exec_Op<"entry", [Symbol, NoTerminator, SingleBlock, HasParent<"::mlir::exec::ProgramOp">]> {
  let summary = "a named list of instructions";
  let description = "`load` runs once; others as the timetable says.";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Exec_TimetableOp : Exec_Op<"timetable", [HasParent<"::mlir::exec::ProgramOp">]> {
  let summary = "the rows of one step: which entry runs with which slot";
  let description = [{
    `exec.timetable [@step] slots [0]`. Rows follow each other as if their instructions stood in one list. One entry may
    be run by several rows, one behind the other.
  }];
  let arguments = (ins ArrayAttr:$entries, DenseI64ArrayAttr:$slots);
  let assemblyFormat = "$entries `slots` $slots attr-dict";
  let hasVerifier = 1;
}

def Exec_RankOp : Exec_Op<"rank"> {
  let summary = "the table of one rank";
  let description = [{
    `groups` are lists of world ranks (DenseI32ArrayAttr), `permutations` are pairs (send to, receive from), `ports`
    are boxes (#exec.shard), one per port of the program.
  }];
  let arguments = (ins I64Attr:$rank, FlatSymbolRefAttr:$program, ArrayAttr:$groups,
                       DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$peers, DefaultValuedAttr<ArrayAttr, "{}">:$permutations,
                       DenseI64ArrayAttr:$values, ArrayAttr:$ports);
  let assemblyFormat = "$rank `of` $program `groups` $groups `values` $values `ports` $ports attr-dict";
  let hasVerifier = 1;
}

#endif
