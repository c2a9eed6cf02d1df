// SPDX-License-Identifier: Apache-2.0
// What memory planning and dependency analysis ask of an instruction.

#ifndef AUTOPAR_EXEC_INTERFACES_TD
#define AUTOPAR_EXEC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Exec_InstructionOpInterface : OpInterface<"InstructionOpInterface"> {
  let cppNamespace = "::mlir::exec";
  let description = "One instruction of a program: which buffers it reads and which it writes.";
  let methods = [
    InterfaceMethod<"Buffers whose bytes the instruction reads.", "::llvm::SmallVector<::mlir::Value>", "getReads", (ins)>,
    InterfaceMethod<"Buffers whose bytes the instruction writes, scratch included.", "::llvm::SmallVector<::mlir::Value>", "getWrites", (ins)>,
    InterfaceMethod<"The buffer among those it reads that may have the same bytes as the first one it writes, or null.",
                    "::mlir::Value", "getReplaced", (ins)>,
    InterfaceMethod<"The queue it runs on.", "::mlir::exec::Queue", "getQueue", (ins)>,
    InterfaceMethod<"Sets the indices of earlier instructions of the entry that it waits for.", "void", "setAfter",
                    (ins "::llvm::ArrayRef<int32_t>":$after)>,
  ];
}

#endif
