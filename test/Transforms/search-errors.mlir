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

// -----

func.func @main(%x: tensor<8xf32>) {
  // expected-error @+1 {{'autopar.send' op gives no tensor; expected a step on whole tensors, before autopar-partition and autopar-schedule}}
  autopar.send %x to 1 tag 0 : tensor<8xf32>
  return
}
