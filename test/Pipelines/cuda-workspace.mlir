// REQUIRES: autopar-compile
// RUN: autopar-compile %s --target cuda --stop-after=plan-memory -o - | FileCheck %s
// RUN: autopar-compile %s --target cpu --threads 1 --stop-after=plan-memory -o - | FileCheck %s --check-prefix=CPU

// The workspace of a product on a GPU starts at a multiple of 256 and has no fewer bytes; buffers of
// programs for CPUs lie as densely as they can.

// CHECK: "x" device bytes 320 at 0
// CHECK: "w" device bytes 320 at 512
// CHECK: "fc.scratch" device bytes 256 at 1024
// CPU: "x" device bytes 320 at {{0|640}} :
// CPU: "w" device bytes 320 at {{320|960}} :
func.func @main(%x: tensor<1x80xf32> {autopar.name = "x"}, %w: tensor<80x1xf32> {autopar.name = "w"}) -> (tensor<1x1xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<1x80xf32>, tensor<80x1xf32>) -> tensor<1x1xf32>
  return %h : tensor<1x1xf32>
}
