// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-search

// expected-error @+1 {{has no cluster to shard for; declare autopar.cluster or give the option cluster=FILE}}
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{expected a function @main of one block to shard}}
module {
  autopar.cluster @cluster "presets:cpux2"
}

// -----

// expected-error @+1 {{cluster: }}
module {
  autopar.cluster @cluster "presets:abacus"
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
