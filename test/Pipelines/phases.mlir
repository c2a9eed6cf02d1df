// REQUIRES: autopar-compile
// RUN: rm -rf %t && autopar-compile %s --ranks 2 --mesh x=2 --stop-after=plan-memory -o %t.exec.mlir --emit-mlir %t
// RUN: ls %t | FileCheck %s --check-prefix=FILES
// RUN: FileCheck %s --check-prefix=EXEC < %t.exec.mlir

// Every phase leaves its IR, in order; two ranks stand in the tables.

// FILES: 01-import.mlir
// FILES-NEXT: 02-prepare.mlir
// FILES-NEXT: 03-search.mlir
// FILES-NEXT: 04-annotate.mlir
// FILES-NEXT: 05-insert-reshards.mlir
// FILES-NEXT: 06-partition.mlir
// FILES-NEXT: 07-optimize-collectives.mlir
// FILES-NEXT: 08-form-groups.mlir
// FILES-NEXT: 09-schedule.mlir
// FILES-NEXT: 10-lower.mlir
// FILES-NEXT: 11-plan-memory.mlir
// EXEC: exec.program @class0 arena
// EXEC: exec.rank 0 of @class0
// EXEC: exec.rank 1 of @class0
func.func @main(%x: tensor<512x512xf32> {autopar.name = "x"}, %w: tensor<512x512xf32> {autopar.name = "w"}) -> (tensor<512x512xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %y : tensor<512x512xf32>
}
