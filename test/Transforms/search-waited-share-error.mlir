// RUN: not autopar-opt %s --autopar-search="cluster=presets:h100x2 waited-share=1.5" 2>&1 | FileCheck %s
// RUN: not autopar-opt %s --autopar-search="cluster=presets:h100x2 waited-share=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// CHECK: error: waited-share: expected a share from 0 to 1, got 1.5
// NEGATIVE: error: waited-share: expected a share from 0 to 1, got -1
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
