// RUN: autopar-opt %s --autopar-prepare-kernels | FileCheck %s

// Scratch moves to the entry and is aligned; copies become loops.
// CHECK-LABEL: @scratch
// CHECK-NEXT: memref.alloca() {alignment = 64 : i64} : memref<4x8xf32>
// CHECK: scf.for
// CHECK-NOT: memref.alloca
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.load
// CHECK: memref.store
// CHECK-NOT: memref.copy
func.func @scratch(%x: memref<4x8xf32>, %begin: index, %end: index) {
  %c1 = arith.constant 1 : index
  scf.for %i = %begin to %end step %c1 {
    %t = memref.alloca() : memref<4x8xf32>
    memref.copy %x, %t : memref<4x8xf32> to memref<4x8xf32>
    memref.copy %t, %x : memref<4x8xf32> to memref<4x8xf32>
  }
  return
}
