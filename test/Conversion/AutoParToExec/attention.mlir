// RUN: autopar-opt %s --autopar-to-exec="pack-weights=false" | FileCheck %s

// Heads are strides, not copies: no kernel but the softmax.

// CHECK: exec.program @class0 threads 1 kernels @kernels
// CHECK-DAG: %[[Q:.*]] = exec.buffer "q" device bytes 4096 : tensor<2x8x64xf32>
// CHECK-DAG: exec.port input "q" %[[Q]] : tensor<2x8x64xf32>
// CHECK: exec.entry @step
// CHECK-NEXT: exec.matmul %[[Q]], {{.*}} <a = <f32[2, 4, 8, 16] strides[512, 16, 64, 1]>, b = <f32[2, 4, 16, 8] strides[512, 16, 1, 64]>, c = <f32[2, 4, 8, 8] strides[256, 64, 8, 1]>
// CHECK-NEXT: exec.launch @k0
// CHECK-NEXT: exec.matmul {{.*}} c = <f32[2, 4, 8, 16] strides[512, 16, 64, 1]>
// CHECK-NOT: exec.launch
// CHECK: exec.timetable [@step] slots [0]
// CHECK: exec.rank 0 of @class0
// CHECK: module @kernels
func.func @main(%q: tensor<2x8x64xf32> {autopar.name = "q"}, %k: tensor<2x8x64xf32> {autopar.name = "k"},
                %v: tensor<2x8x64xf32> {autopar.name = "v"}) -> (tensor<2x8x64xf32> {autopar.name = "y"}) {
  %q4 = autopar.reshape %q : tensor<2x8x64xf32> -> tensor<2x8x4x16xf32>
  %qt = autopar.transpose %q4 permutation [0, 2, 1, 3] : tensor<2x8x4x16xf32> -> tensor<2x4x8x16xf32>
  %k4 = autopar.reshape %k : tensor<2x8x64xf32> -> tensor<2x8x4x16xf32>
  %kt = autopar.transpose %k4 permutation [0, 2, 3, 1] : tensor<2x8x4x16xf32> -> tensor<2x4x16x8xf32>
  %v4 = autopar.reshape %v : tensor<2x8x64xf32> -> tensor<2x8x4x16xf32>
  %vt = autopar.transpose %v4 permutation [0, 2, 1, 3] : tensor<2x8x4x16xf32> -> tensor<2x4x8x16xf32>
  %s = autopar.dot_general %qt, %kt batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "scores"} : (tensor<2x4x8x16xf32>, tensor<2x4x16x8xf32>) -> tensor<2x4x8x8xf32>
  %p = autopar.group %s {autopar.id = "softmax"} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32> {
  ^bb0(%a: tensor<2x4x8x8xf32>):
    %0 = autopar.softmax %a dim 3 : tensor<2x4x8x8xf32>
    autopar.yield %0 : tensor<2x4x8x8xf32>
  }
  %c = autopar.dot_general %p, %vt batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "context"} : (tensor<2x4x8x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  %ct = autopar.transpose %c permutation [0, 2, 1, 3] : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
  %y = autopar.reshape %ct : tensor<2x8x4x16xf32> -> tensor<2x8x64xf32>
  return %y : tensor<2x8x64xf32>
}
