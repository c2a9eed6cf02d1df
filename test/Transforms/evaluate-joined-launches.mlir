// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step="cluster=presets:h100x1 target=cuda" | FileCheck %s --check-prefix=JOINED
// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step="cluster=presets:h100x1 target=cpu" | FileCheck %s --check-prefix=APART

// One launch runs both kernels, as autopar-join-launches will have it: a launch less.
// JOINED: autopar.step_us = 8.04{{[0-9]*}} : f64
// APART: autopar.step_us = 12.04{{[0-9]*}} : f64
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = autopar.unary exp %x {autopar.id = "a"} : tensor<64x64xf32>
    %1 = autopar.unary exp %y {autopar.id = "b"} : tensor<64x64xf32>
    %2 = autopar.dot_general %0, %1 contract [1] x [0] {autopar.id = "c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}

// -----

// What reads the other's result runs behind it.
// JOINED: autopar.step_us = 12.04{{[0-9]*}} : f64
// APART: autopar.step_us = 12.04{{[0-9]*}} : f64
module {
  autopar.mesh @mesh ["t" = 1]
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = autopar.unary exp %x {autopar.id = "a"} : tensor<64x64xf32>
    %1 = autopar.unary exp %0 {autopar.id = "b"} : tensor<64x64xf32>
    %2 = autopar.dot_general %0, %1 contract [1] x [0] {autopar.id = "c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}
