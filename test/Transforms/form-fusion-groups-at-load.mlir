// RUN: autopar-opt %s --autopar-form-fusion-groups | FileCheck %s

// Sums of weights are made once, at load: the kernel that reads them in every step does not make them
// again, though it has a point for each.

// CHECK-LABEL: func.func @main
// CHECK:       %[[S:.*]] = autopar.group %arg1
// CHECK:       autopar.reduce sum
// CHECK:       autopar.group %arg0, %[[S]]
// CHECK-NOT:   reduce
autopar.origin @w : tensor<64x32xi8> in "w.bin" at 0
func.func @main(%x: tensor<1x32xi32> {autopar.name = "x"}, %w: tensor<64x32xi8> {autopar.name = "w", autopar.origin = @w}) -> (tensor<1x32xi32> {autopar.name = "y"}) {
  %wide = autopar.cast %w {autopar.id = "wide"} : tensor<64x32xi8> -> tensor<64x32xi32>
  %sums = autopar.reduce sum %wide dims [0] {autopar.id = "sums"} : tensor<64x32xi32> -> tensor<32xi32>
  %s = autopar.broadcast %sums dims [1] {autopar.id = "s"} : tensor<32xi32> -> tensor<1x32xi32>
  %y = autopar.binary sub %x, %s {autopar.id = "y"} : tensor<1x32xi32>
  return %y : tensor<1x32xi32>
}
