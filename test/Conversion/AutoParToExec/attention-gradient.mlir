// RUN: autopar-opt %s --split-input-file --autopar-form-fusion-groups --autopar-to-exec="pack-weights=false" | FileCheck %s

// What attention yields is written as the product behind it wants it: its gradient, which reads it
// too, takes it as it lies.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.attention({{.*}}) -> (%[[OUT:.*]], %{{.*}}) {{.*}}<f32[2, 4, 8, 16] strides[512, 16, 64, 1]>], scale
// CHECK-NEXT: exec.matmul %[[OUT]], {{.*}} <a = <f32[16, 64] strides[64, 1]>
// CHECK-NEXT: exec.attention({{.*}}, %[[OUT]], {{.*}})
// CHECK-NOT: exec.launch
// CHECK: exec.timetable [@step] slots [0]
func.func @main(%q: tensor<2x4x8x16xf32> {autopar.name = "q"}, %k: tensor<2x4x8x16xf32> {autopar.name = "k"},
                %v: tensor<2x4x8x16xf32> {autopar.name = "v"}, %w: tensor<64x32xf32> {autopar.name = "w"},
                %g: tensor<2x4x8x16xf32> {autopar.name = "g"})
    -> (tensor<16x32xf32> {autopar.name = "y"}, tensor<2x4x8x16xf32> {autopar.name = "dq"}) {
  %o, %s = autopar.attention %q, %k, %v scale 2.500000e-01 {autopar.id = "attention"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %t = autopar.transpose %o permutation [0, 2, 1, 3] : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
  %r = autopar.reshape %t : tensor<2x8x4x16xf32> -> tensor<16x64xf32>
  %y = autopar.dot_general %r, %w contract [1] x [0] {autopar.id = "product"} : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %v, %o, %s, %g scale 2.500000e-01 {autopar.id = "gradient"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  return %y, %dq : tensor<16x32xf32>, tensor<2x4x8x16xf32>
}

// -----

// Gradients of what was one product are written where they are read as one tensor.

// CHECK: %[[ALL:.*]] = exec.buffer "joined" {{.*}} : tensor<2x8x3x64xf32>
// CHECK-DAG: %[[K:.*]] = exec.view "gradient" %[[ALL]] at 256 bytes
// CHECK-DAG: %[[V:.*]] = exec.view "gradient" %[[ALL]] at 512 bytes
// CHECK: exec.entry @step
// CHECK-NEXT: exec.attention
// CHECK-NEXT: exec.attention({{.*}}) -> (%[[ALL]], %[[K]], %[[V]]) {{.*}}<f32[2, 4, 8, 16] strides[1536, 16, 192, 1]>], scale
// CHECK-NEXT: exec.matmul %[[ALL]], {{.*}} <a = <f32[16, 192] strides[192, 1]>
// CHECK-NOT: exec.launch
// CHECK: exec.timetable
func.func @main(%q: tensor<2x4x8x16xf32> {autopar.name = "q"}, %k: tensor<2x4x8x16xf32> {autopar.name = "k"},
                %v: tensor<2x4x8x16xf32> {autopar.name = "v"}, %w: tensor<192x32xf32> {autopar.name = "w"},
                %g: tensor<2x4x8x16xf32> {autopar.name = "g"})
    -> (tensor<16x32xf32> {autopar.name = "y"}, tensor<2x4x8x16xf32> {autopar.name = "o"}) {
  %o, %s = autopar.attention %q, %k, %v scale 2.500000e-01 {autopar.id = "attention"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %v, %o, %s, %g scale 2.500000e-01 {autopar.id = "gradient"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
  %tq = autopar.transpose %dq permutation [0, 2, 1, 3] : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
  %tk = autopar.transpose %dk permutation [0, 2, 1, 3] : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
  %tv = autopar.transpose %dv permutation [0, 2, 1, 3] : tensor<2x4x8x16xf32> -> tensor<2x8x4x16xf32>
  %rq = autopar.reshape %tq : tensor<2x8x4x16xf32> -> tensor<2x8x1x64xf32>
  %rk = autopar.reshape %tk : tensor<2x8x4x16xf32> -> tensor<2x8x1x64xf32>
  %rv = autopar.reshape %tv : tensor<2x8x4x16xf32> -> tensor<2x8x1x64xf32>
  %all = autopar.concat %rq, %rk, %rv dim 2 {autopar.id = "joined"} : (tensor<2x8x1x64xf32>, tensor<2x8x1x64xf32>, tensor<2x8x1x64xf32>) -> tensor<2x8x3x64xf32>
  %r = autopar.reshape %all : tensor<2x8x3x64xf32> -> tensor<16x192xf32>
  %y = autopar.dot_general %r, %w contract [1] x [0] {autopar.id = "product"} : (tensor<16x192xf32>, tensor<192x32xf32>) -> tensor<16x32xf32>
  return %y, %o : tensor<16x32xf32>, tensor<2x4x8x16xf32>
}
