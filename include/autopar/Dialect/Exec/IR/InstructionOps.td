// SPDX-License-Identifier: Apache-2.0
// The instructions, one per alternative of artifact::Payload.

#ifndef AUTOPAR_EXEC_INSTRUCTIONOPS_TD
#define AUTOPAR_EXEC_INSTRUCTIONOPS_TD

include "autopar/Dialect/Exec/IR/ExecAttributes.td"
include "autopar/Dialect/Exec/IR/ExecInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Exec_Op<string mnemonic, list<Trait> traits = []> : Op<Exec_Dialect, mnemonic, traits>;

def Exec_ElementName : ConfinedAttr<StrAttr, [AttrConstraint<
    CPred<"::autopar::dataTypeFromName(::llvm::cast<::mlir::StringAttr>($_self).getValue())">,
    "name of an element type">]>;

// What every instruction carries. `after`: indices of earlier instructions of the entry, on other
// queues, that must be complete first. The attribute `awaits` has, by name of an entry, indices of instructions whose
// last run in the rows before must be complete. `arithmetic`: the type of the FLOPs. `evaluated` and
// `commits`: see autopar-mark-instructions.
class Exec_Instruction<string mnemonic, dag own, string format, string reads, string writes, list<Trait> traits = [],
                       string replaced = "::mlir::Value()">
    : Exec_Op<mnemonic, !listconcat(traits, [HasParent<"::mlir::exec::EntryOp">,
        DeclareOpInterfaceMethods<Exec_InstructionOpInterface>])> {
  let arguments = !con(own, (ins
    DefaultValuedAttr<Exec_QueueAttr, "::mlir::exec::Queue::Compute">:$queue,
    DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$after,
    DefaultValuedAttr<StrAttr, "\"\"">:$id, DefaultValuedAttr<StrAttr, "\"\"">:$key,
    DefaultValuedAttr<I64Attr, "0">:$flops, DefaultValuedAttr<I64Attr, "0">:$bytes,
    DefaultValuedAttr<Exec_ElementName, "\"f32\"">:$arithmetic, UnitAttr:$evaluated, UnitAttr:$commits));
  let assemblyFormat = format # " (`queue` $queue^)? (`after` $after^)? attr-dict";
  let extraClassDefinition = [{
    ::llvm::SmallVector<::mlir::Value> $cppClass::getReads() {
      ::llvm::SmallVector<::mlir::Value> reads;
      }] # reads # [{
      return reads;
    }
    ::llvm::SmallVector<::mlir::Value> $cppClass::getWrites() {
      ::llvm::SmallVector<::mlir::Value> writes;
      }] # writes # [{
      return writes;
    }
    ::mlir::Value $cppClass::getReplaced() { return }] # replaced # [{; }
  }];
}

def Exec_LaunchOp : Exec_Instruction<"launch",
    (ins FlatSymbolRefAttr:$kernel, Variadic<Exec_BufferType>:$inputs, Variadic<Exec_BufferType>:$outputs, I64Attr:$extent,
         OptionalAttr<DenseI64ArrayAttr>:$grid),
    "$kernel `(` $inputs `)` `->` `(` $outputs `)` `extent` $extent (`grid` $grid^)?",
    "reads.append(getInputs().begin(), getInputs().end());",
    "writes.append(getOutputs().begin(), getOutputs().end());", [AttrSizedOperandSegments]> {
  let summary = "runs a kernel over the outer iterations [0, extent)";
  let description = [{
    `exec.launch @k0(%x) -> (%y) extent 8`. For CUDA, `grid [4, 256, 0]` gives the blocks, the threads of a block and its
    dynamic shared memory in bytes.
  }];
  let hasVerifier = 1;
}

def Exec_MatmulOp : Exec_Instruction<"matmul",
    (ins Exec_BufferType:$a, Exec_BufferType:$b, Exec_BufferType:$c, Optional<Exec_BufferType>:$bias,
         Optional<Exec_BufferType>:$residual, Optional<Exec_BufferType>:$scratch, Optional<Exec_BufferType>:$aux,
         Exec_MatmulAttr:$geometry),
    "$a `,` $b `->` $c (`aux` $aux^)? (`bias` $bias^)? (`residual` $residual^)? (`scratch` $scratch^)? $geometry",
    "reads.append({getA(), getB()}); if (getBias()) reads.push_back(getBias()); if (getResidual()) reads.push_back(getResidual());",
    "writes.push_back(getC()); if (getAux()) writes.push_back(getAux()); if (getScratch()) writes.push_back(getScratch());",
    [AttrSizedOperandSegments],
    "::autopar::artifact::isGradient(::autopar::artifact::Epilogue(getGeometry().getEpilogue())) ? Value() : Value(getResidual())"> {
  let summary = "a matrix product by the library";
  let description = [{
    c = epilogue(scale * (a b + bias) + residual), strided and batched as `geometry` says (`#exec.matmul`). `aux` is the second
    result that some epilogues store. `scratch` holds the library's workspace. Where nothing reads the residual afterwards, c
    may have its bytes.
  }];
  let hasVerifier = 1;
}

def Exec_ConvolutionOp : Exec_Instruction<"convolution",
    (ins Exec_BufferType:$x, Exec_BufferType:$w, Exec_BufferType:$y, Optional<Exec_BufferType>:$bias,
         Optional<Exec_BufferType>:$residual, Optional<Exec_BufferType>:$scratch, Exec_ConvolutionAttr:$geometry),
    "$x `,` $w `->` $y (`bias` $bias^)? (`residual` $residual^)? (`scratch` $scratch^)? $geometry",
    "reads.append({getX(), getW()}); if (getBias()) reads.push_back(getBias()); if (getResidual()) reads.push_back(getResidual());",
    "writes.push_back(getY()); if (getScratch()) writes.push_back(getScratch());", [AttrSizedOperandSegments], "getResidual()"> {
  let summary = "a convolution, or one of its gradients, by the library";
  let description = [{
    y = epilogue(conv(x, w) + bias + residual), or a gradient by input or filter, as `geometry` says (`#exec.convolution`).
    `scratch` holds the library's workspace.
  }];
  let hasVerifier = 1;
}

def Exec_AttentionOp : Exec_Instruction<"attention",
    (ins Variadic<Exec_BufferType>:$inputs, Variadic<Exec_BufferType>:$outputs, Optional<Exec_BufferType>:$scratch,
         Exec_AttentionAttr:$geometry, OptionalAttr<I64Attr>:$shardValue, OptionalAttr<I64Attr>:$parts),
    "`(` $inputs `)` `->` `(` $outputs `)` (`scratch` $scratch^)? $geometry (`shard` $shardValue^ `of` $parts)?",
    "reads.append(getInputs().begin(), getInputs().end());",
    "writes.append(getOutputs().begin(), getOutputs().end()); if (getScratch()) writes.push_back(getScratch());",
    [AttrSizedOperandSegments]> {
  let summary = "attention, or its gradient, by the library";
  let description = [{
    Inputs: query, key, value and, of the gradient, output, row sums and the gradient of the output; then the bias, if
    there is one. Outputs: output and row sums, or the gradients of query, key and value. Row sums are f32, row-major.
    `shard 8 of 4`: the rows are one of four equal parts of a triangle's, which one stands in word 8 of the rank's values.
  }];
  let hasVerifier = 1;
}

def Exec_GroupedProductOp : Exec_Instruction<"grouped_product",
    (ins Exec_BufferType:$lhs, Optional<Exec_BufferType>:$rhs, Variadic<Exec_BufferType>:$madeOf, Exec_BufferType:$group,
         Exec_BufferType:$result, Optional<Exec_BufferType>:$scratch, Exec_GroupedProductAttr:$geometry,
         OptionalAttr<FlatSymbolRefAttr>:$maker, OptionalAttr<I64Attr>:$extent, OptionalAttr<DenseI64ArrayAttr>:$matrixSteps,
         OptionalAttr<DenseI64ArrayAttr>:$columnSteps),
    "$lhs `,` ($rhs^)? (`made` `by` $maker^ `(` $madeOf `)` `extent` $extent `steps` $matrixSteps `,` $columnSteps)? "
    "`by` $group `->` $result (`scratch` $scratch^)? $geometry",
    "reads.push_back(getLhs()); if (getRhs()) reads.push_back(getRhs()); reads.append(getMadeOf().begin(), getMadeOf().end()); "
    "reads.push_back(getGroup());",
    "writes.push_back(getResult()); if (getScratch()) writes.push_back(getScratch());", [AttrSizedOperandSegments]> {
  let summary = "rows times the matrix of their group, or the gradient of the matrices, by the library";
  let description = [{
    `group` holds a number for each row, row-major. Rows of no group are zero; in the gradient they count nowhere.

    `made by @k0(%codes) extent 16 steps [4096], [512]`: the matrices stand nowhere in memory. The kernel, run over `extent`
    outer iterations, makes the first `madeColumns` columns of the first matrix; those of others where its inputs are read
    so many bytes further per matrix and per so many columns.
  }];
  let hasVerifier = 1;
}

def Exec_PackOp : Exec_Instruction<"pack",
    (ins Exec_BufferType:$src, Exec_BufferType:$dst, AnyAttrOf<[Exec_MatmulAttr, Exec_ConvolutionAttr]>:$geometry),
    "$src `->` $dst `for` $geometry", "reads.push_back(getSrc());", "writes.push_back(getDst());"> {
  let summary = "stores a weight in the layout that the library prefers for a geometry";
  let description = [{
    Runs in the entry `load` for weights that products alone or one convolution read, in the step for what many products
    of few rows or a convolution read there; `geometry` is that of the readers, which says `packedB` or `packedW`.
  }];
}

def Exec_ReorderOp : Exec_Instruction<"reorder",
    (ins Exec_BufferType:$src, Exec_BufferType:$dst, TypeAttr:$type, Exec_LayoutAttr:$from, Exec_LayoutAttr:$to),
    "$src $from `->` $dst $to `:` $type", "reads.push_back(getSrc());", "writes.push_back(getDst());"> {
  let summary = "copies an activation from one layout to another";
  let description = [{
    `type` is the logical tensor [batch, channels, spatial...]; layouts are plain, channels-last or blocks of channels.
  }];
}

def Exec_CollectiveOp : Exec_Instruction<"collective",
    (ins Exec_CollectiveKindAttr:$kind, Exec_BufferType:$input, Exec_BufferType:$output, I64Attr:$group,
         DefaultValuedAttr<Exec_ReductionAttr, "::mlir::exec::Reduction::Sum">:$reduction, TypeAttr:$type, I64Attr:$count),
    "$kind $input `->` $output `group` $group (`reduction` $reduction^)? `count` $count `:` $type",
    "reads.push_back(getInput());", "writes.push_back(getOutput());"> {
  let summary = "a collective over a group of ranks, on contiguous buffers, rank-major";
  let description = [{
    `count` elements of `type` on the full side: the gathered result, the buffer that is reduced or scattered. `group` is a
    number of the rank table. `exec.collective all_reduce %p -> %l group 0 count 1 : f32 queue communication`
  }];
}

def Exec_PermuteOp : Exec_Instruction<"permute",
    (ins Exec_BufferType:$input, Exec_BufferType:$output, I64Attr:$permutation, I64Attr:$size),
    "$input `->` $output `permutation` $permutation `bytes` $size",
    "reads.push_back(getInput());", "writes.push_back(getOutput());"> {
  let summary = "each rank sends to one rank and receives from one";
  let description = [{
    `permutation` is a number of the rank table, which says the two ranks; where nobody sends, zeros arrive. `size` in bytes.
  }];
}

def Exec_SendOp : Exec_Instruction<"send",
    (ins Exec_BufferType:$buffer, I64Attr:$peer, I64Attr:$size, DefaultValuedAttr<I64Attr, "0">:$tag),
    "$buffer `to` $peer `bytes` $size (`tag` $tag^)?", "reads.push_back(getBuffer());", ""> {
  let summary = "sends a buffer to a peer";
  let description = [{
    `peer` is a number of the rank table; -1 there leaves the message out. Messages of a pair of ranks are told apart by `tag`,
    start in program order and end in any order. `size` in bytes.
  }];
}

def Exec_RecvOp : Exec_Instruction<"recv",
    (ins Exec_BufferType:$buffer, I64Attr:$peer, I64Attr:$size, DefaultValuedAttr<I64Attr, "0">:$tag),
    "$buffer `from` $peer `bytes` $size (`tag` $tag^)?", "", "writes.push_back(getBuffer());"> {
  let summary = "receives a buffer from a peer";
  let description = [{
    The other side of `exec.send`: `peer`, `size` in bytes and `tag` agree with it.
  }];
}

def Exec_CopyOp : Exec_Instruction<"copy",
    (ins Exec_BufferType:$src, I64Attr:$srcOffset, Exec_BufferType:$dst, I64Attr:$dstOffset, I64Attr:$size),
    "$src `at` $srcOffset `->` $dst `at` $dstOffset `bytes` $size",
    "reads.push_back(getSrc());", "writes.push_back(getDst());"> {
  let summary = "copies bytes between buffers of any space";
  let description = [{
    Offsets and `size` in bytes. Between device and host memory it runs on the queues `copy_in` and `copy_out`:
    `exec.copy %m at 0 -> %f at 0 bytes 64 queue copy_in`
  }];
}

def Exec_ReadOp : Exec_Instruction<"read", (ins StrAttr:$port, Exec_BufferType:$dst),
    "$port `->` $dst", "", "writes.push_back(getDst());"> {
  let summary = "fetches this rank's box of a parameter port";
  let description = [{
    `port` names a parameter port without a buffer; the box is that of the rank table. Runs in the entry `load`.
    `exec.read "w" -> %read`
  }];
}

#endif
