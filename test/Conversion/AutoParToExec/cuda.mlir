// RUN: autopar-opt %s --autopar-form-fusion-groups --autopar-to-exec="target=cuda" | FileCheck %s
// RUN: not autopar-opt %s --autopar-to-exec="target=tpu" 2>&1 | FileCheck %s --check-prefix=TARGET

// For a GPU, weights are not packed, the library gets a workspace, and of the activations only those that it has.

// TARGET: unknown target "tpu"; expected cpu or cuda

// CHECK: autopar.target = "cuda"
// CHECK-NOT: exec.pack
// CHECK: exec.matmul {{.*}} scratch {{.*}}epilogue = gelu_tanh
// CHECK: exec.matmul {{.*}} scratch
// CHECK-NOT: gelu_erf
// CHECK: exec.launch @k0({{.*}}) -> ({{.*}}) extent {{.*}} grid [1, 64, 0]
func.func @main(%x: tensor<16x16xf32> {autopar.name = "x"}, %w: tensor<16x16xf32> {autopar.name = "w"})
    -> (tensor<16x16xf32> {autopar.name = "y"}) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc1"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %b = autopar.unary gelu_tanh %a : tensor<16x16xf32>
  %c = autopar.dot_general %b, %w contract [1] x [0] {autopar.id = "fc2"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %d = autopar.unary gelu %c : tensor<16x16xf32>
  return %d : tensor<16x16xf32>
}
