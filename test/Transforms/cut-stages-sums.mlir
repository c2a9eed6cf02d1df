// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='v: stage 0,q: stage 0,k: stage 1,y: stage 1'" | FileCheck %s

// A value of the first stage is read on both. Its derivatives are summed where it is, although the one
// that comes from the second is the larger: what follows the sum goes on to the first stage.
// CHECK: %[[Q:.*]] = autopar.cast %{{.*}} {autopar.id = "q/vjp.0/f32"}
// CHECK: %[[K:.*]] = autopar.transfer %{{.*}} to 0 {autopar.id = "k/vjp.0/to.0"}
// CHECK: autopar.binary add %[[K]], %[[Q]] {autopar.id = "v/vjp.sum"}
// CHECK-NOT: autopar.transfer %{{.*}} to 1
func.func @main(%x: tensor<8xf32>, %w: tensor<8xf32> {autopar.name = "w", autopar.donated}) -> (tensor<8xf32> {autopar.name = "w"}, tensor<8xf32>) {
  %v = autopar.binary mul %x, %w {autopar.id = "v"} : tensor<8xf32>
  %q = autopar.unary exp %v {autopar.id = "q"} : tensor<8xf32>
  %k = autopar.unary tanh %v {autopar.id = "k"} : tensor<8xf32>
  %y = autopar.binary mul %q, %k {autopar.id = "y"} : tensor<8xf32>
  %gk = autopar.binary mul %y, %k {autopar.id = "k/vjp.0"} : tensor<8xf32>
  %n = autopar.cast %y {autopar.id = "y/vjp.0"} : tensor<8xf32> -> tensor<8xbf16>
  %b = autopar.unary neg %n {autopar.id = "q/vjp.0"} : tensor<8xbf16>
  %gq = autopar.cast %b {autopar.id = "q/vjp.0/f32"} : tensor<8xbf16> -> tensor<8xf32>
  %s = autopar.binary add %gk, %gq {autopar.id = "v/vjp.sum"} : tensor<8xf32>
  %g = autopar.binary mul %s, %x {autopar.id = "v/vjp.1"} : tensor<8xf32>
  %new = autopar.binary sub %w, %g {autopar.id = "w/update"} : tensor<8xf32>
  return %new, %y : tensor<8xf32>, tensor<8xf32>
}
