// RUN: autopar-opt %s --autopar-form-fusion-groups --autopar-to-exec="target=cuda" | FileCheck %s --check-prefix=CUDA
// RUN: autopar-opt %s --autopar-form-fusion-groups --autopar-to-exec="target=cpu" | FileCheck %s --check-prefix=CPU

// cuBLASLt has products of f16, with a bias in the call; the library of the CPU has none, so what is not widened before becomes loops.

// CUDA: exec.matmul {{.*}}a = <f16[2, 64]{{.*}}c = <f16[2, 8]{{.*}}biasType = f16
// CUDA-NOT: exec.launch
// CPU-NOT: exec.matmul
// CPU: exec.launch
func.func @main(%x: tensor<2x64xf16> {autopar.name = "x"}, %w: tensor<64x8xf16> {autopar.name = "w"}, %v: tensor<8xf16> {autopar.name = "v"})
    -> (tensor<2x8xf16> {autopar.name = "y"}) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<2x64xf16>, tensor<64x8xf16>) -> tensor<2x8xf16>
  %b = autopar.broadcast %v dims [1] : tensor<8xf16> -> tensor<2x8xf16>
  %c = autopar.binary add %a, %b : tensor<2x8xf16>
  return %c : tensor<2x8xf16>
}
