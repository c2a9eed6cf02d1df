// RUN: autopar-opt %s --autopar-to-loops="target=cuda" | FileCheck %s
// RUN: not autopar-opt %s --autopar-to-loops="target=tpu" 2>&1 | FileCheck %s --check-prefix=TARGET

// TARGET: unknown target "tpu"; expected cpu or cuda

// A thread per 4 elements of 4 bytes; only the last block needs to look where it ends.
// CHECK-LABEL: func.func @pointwise_0(%{{.*}}: memref<4096xf32>, %{{.*}}: memref<4096xf32>)
// CHECK-SAME: autopar.grid = array<i64: 4, 256, 0>
// CHECK: gpu.block_id
// CHECK: gpu.thread_id
// CHECK-NOT: scf.if
// CHECK-COUNT-4: memref.store
// CHECK-LABEL: func.func @uneven_0
// CHECK-SAME: autopar.grid = array<i64: 4, 256, 0>
// CHECK: scf.if
func.func @pointwise(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %y = autopar.unary neg %x : tensor<4096xf32>
  return %y : tensor<4096xf32>
}
func.func @uneven(%x: tensor<1021xf32>) -> tensor<1021xf32> {
  %y = autopar.unary neg %x : tensor<1021xf32>
  return %y : tensor<1021xf32>
}

// Short rows: a thread each. Rows of a few hundred: a warp each, four to a block, no shared memory.
// CHECK-LABEL: func.func @short_rows_0
// CHECK-NOT: gpu.shuffle
// CHECK-LABEL: func.func @warp_rows_0
// CHECK-SAME: autopar.grid = array<i64: 256, 128, 0>
// CHECK-NOT: workgroup
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: gpu.barrier
func.func @short_rows(%x: tensor<4096x8xf32>) -> tensor<4096xf32> {
  %y = autopar.reduce sum %x dims [1] : tensor<4096x8xf32> -> tensor<4096xf32>
  return %y : tensor<4096xf32>
}
func.func @warp_rows(%x: tensor<1024x256xf32>) -> tensor<1024xf32> {
  %y = autopar.reduce sum %x dims [1] : tensor<1024x256xf32> -> tensor<1024xf32>
  return %y : tensor<1024xf32>
}

// Sums over rows that lie across memory: 32 columns per block, the parts joined in shared memory.
// CHECK-LABEL: func.func @columns_0
// CHECK-SAME: autopar.grid = array<i64: 24, 512, 0>
// CHECK: memref<512xf32, #gpu.address_space<workgroup>>
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.barrier
func.func @columns(%x: tensor<4096x768xf32>) -> tensor<768xf32> {
  %y = autopar.reduce sum %x dims [0] : tensor<4096x768xf32> -> tensor<768xf32>
  return %y : tensor<768xf32>
}

// A kernel with loops of its own: a thread per iteration.
// CHECK-LABEL: func.func @own_0
// CHECK-SAME: autopar.grid = array<i64: 1, 64, 0>
// CHECK: arith.cmpi ult
func.func @own(%x: tensor<16x8xf32>) -> tensor<16x8xf32> {
  %y = autopar.cumulative sum %x dim 1 : tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}
