// SPDX-License-Identifier: Apache-2.0
// The exec dialect: compiled.bin as IR, one operation per artifact entity, so that emission holds no
// logic.

#ifndef AUTOPAR_EXEC_DIALECT_TD
#define AUTOPAR_EXEC_DIALECT_TD

include "mlir/IR/OpBase.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::mlir::exec";
  let summary = "Programs of the runtime: buffers, ports, instructions, timetables, rank tables";
  let description = [{
    Mirrors include/autopar/Artifact/Program.h. A module in exec form holds one `exec.program` per rank
    class, one `exec.rank` per rank, and one nested module with the kernels of each class. Buffers are
    values of type `!exec.buffer`; instructions read and write them in program order. Everything that
    the runtime needs to know is written down; nothing is left to decide.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif
