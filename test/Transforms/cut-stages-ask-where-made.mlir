// RUN: autopar-opt %s --autopar-cut-stages="stages=3 cluster=presets:cpux3 constraints='second: stage 1,held: stage 1,sum: stage 1,third: stage 2'" | FileCheck %s

// A cheap result that is larger than what it is made of is made again on the next stage. What it is
// made of came from the first stage: it is asked for there, held in between or not, and not sent on.
// CHECK: %[[FIRST:.*]] = autopar.dot_general %arg0, %arg1
// CHECK: %[[MOVED:.*]] = autopar.transfer %[[FIRST]] to 1 {autopar.id = "first/to.1"}
// CHECK: %[[HELD:.*]] = autopar.hold %[[MOVED]]
// CHECK: autopar.broadcast %[[HELD]] {{.*}}"repeated"
// CHECK: autopar.transfer %{{.*}} to 2 {autopar.id = "sum/to.2"}
// CHECK: %[[ASKED:.*]] = autopar.transfer %[[FIRST]] to 2 {autopar.id = "first/to.2"}
// CHECK: autopar.broadcast %[[ASKED]] {{.*}}"repeated/to.2"
// CHECK-NOT: autopar.transfer
module {
  autopar.origin @w1 : tensor<64x4xf32>
  autopar.origin @w2 : tensor<4x4xf32>
  autopar.origin @w3 : tensor<64x4xf32>
  func.func @main(%x: tensor<4x64xf32>, %w1: tensor<64x4xf32> {autopar.origin = @w1}, %w2: tensor<4x4xf32> {autopar.origin = @w2},
                  %w3: tensor<4x4xf32> {autopar.origin = @w3}) -> tensor<4x4xf32> {
    %0 = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.id = "first"} : (tensor<4x64xf32>, tensor<64x4xf32>) -> tensor<4x4xf32>
    %1 = autopar.dot_general %0, %w2 contract [1] x [0] {autopar.id = "second"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = autopar.hold %0 {autopar.id = "held"} : tensor<4x4xf32>
    %b = autopar.broadcast %h dims [1, 2] {autopar.id = "repeated"} : tensor<4x4xf32> -> tensor<8x4x4xf32>
    %m = autopar.reduce max %b dims [0] {autopar.id = "used"} : tensor<8x4x4xf32> -> tensor<4x4xf32>
    %s = autopar.binary add %m, %1 {autopar.id = "sum"} : tensor<4x4xf32>
    %2 = autopar.dot_general %s, %w3 contract [1] x [0] {autopar.id = "third"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n = autopar.reduce max %b dims [0] {autopar.id = "again"} : tensor<8x4x4xf32> -> tensor<4x4xf32>
    %3 = autopar.binary add %2, %n {autopar.id = "last"} : tensor<4x4xf32>
    return %3 : tensor<4x4xf32>
  }
}
