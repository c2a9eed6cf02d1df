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

    Every instruction carries:
      - `queue`: where it runs; instructions of a queue start in program order;
      - `after`: numbers of earlier instructions of the entry, on other queues, that must be complete first;
      - `id`: the operation that it came from; `key`: its class in profile databases;
      - `flops`, `arithmetic` (their type), `bytes`: what the cost model is asked with;
      - `evaluated`: a metric that is evaluated depends on it; `commits`: it changes state, once the metrics that guard are finite.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif
