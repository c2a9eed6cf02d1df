// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step="cluster=presets:h100x2" --verify-diagnostics

// expected-error@+2 {{has stages on 2 meshes, but the module declares 1}}
module {
  func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32> {autopar.stage = 1 : i64}) -> tensor<4xf32> attributes {autopar.stage_meshes = 2 : i64} {
    %y = autopar.binary add %x, %w : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}

// -----

module {
  autopar.mesh @mesh ["t" = 4]
  // expected-error@+1 {{'func.func' op mesh 'mesh'}}
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  autopar.mesh @mesh ["t" = 262144]
  // expected-error@+1 {{'func.func' op mesh 'mesh': 262144 ranks are more than the 2 devices of the cluster}}
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
