// RUN: autopar-opt %s --verify-diagnostics --autopar-annotate

// expected-error @+1 {{has no plan to apply; run autopar-search first or give the option plan=FILE}}
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
