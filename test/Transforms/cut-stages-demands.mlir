// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2" | FileCheck %s --check-prefix=FREE
// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='a: stage 0'" | FileCheck %s --check-prefix=FREE
// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='b: stage 1'" | FileCheck %s --check-prefix=EARLY
// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='c: stage 0'" | FileCheck %s --check-prefix=LATE
// RUN: autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux3 constraints='c: stage 0'" | FileCheck %s --check-prefix=LATE
// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 constraints='d: stage 0'" 2>&1 | FileCheck %s --check-prefix=NONE

// What is demanded of one operation leaves the others to cost; its parts (c/relu) go with it.
// FREE: autopar.transfer %{{.*}} to 1 {autopar.id = "b/to.1"}
// EARLY: autopar.transfer %{{.*}} to 1 {autopar.id = "a/to.1"}
// LATE: autopar.transfer %{{.*}} to 1 {autopar.id = "c/relu/to.1"}
// NONE: stages: no cut into 2 stages, each with an operation, has every operation on the stage that is demanded
module {
  autopar.origin @w : tensor<64x64xf32>
  func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w}) -> tensor<64x64xf32> {
    %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %1 = autopar.dot_general %0, %w contract [1] x [0] {autopar.id = "b"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = autopar.dot_general %1, %w contract [1] x [0] {autopar.id = "c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %3 = autopar.unary relu %2 {autopar.id = "c/relu"} : tensor<64x64xf32>
    %4 = autopar.dot_general %3, %w contract [1] x [0] {autopar.id = "d"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %4 : tensor<64x64xf32>
  }
}
