// RUN: echo '{"kind": "autopar.cluster", "version": 1, "name": "c", "device_types": [{"name": "gpu", "peak_flops_per_s": {"f32": 1e15, "bf16": 1e15}, "memory_bytes_per_s": 8388608000, "memory_bytes": 1073741824}], "nodes": [{"count": 1, "devices_per_node": 2, "device_type": "gpu"}], "levels": [{"latency_us": 0, "bytes_per_s": 4194304000}]}' > %t.json
// RUN: autopar-opt %s --split-input-file --autopar-gather-ahead="cluster=%t.json" | FileCheck %s
// RUN: sed 's/"memory_bytes":/"communicates_while_idle": true, "memory_bytes":/' %t.json > %t.alone.json
// RUN: autopar-opt %s --split-input-file --autopar-gather-ahead="cluster=%t.alone.json" | FileCheck %s --check-prefix=ALONE
// RUN: not autopar-opt %s --split-input-file --autopar-gather-ahead="cluster=presets:none" 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: 'func.func' op cluster: {{.*}}none

// A kernel takes 1 ms for its 8 MiB, a gather of 4 MiB half a one. %w is there when %b is done if it starts behind %a, with the
// kernel on the rank's share.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = autopar.group %arg0
// CHECK: %[[SHARE:.*]] = autopar.group %arg1
// CHECK: %[[W:.*]] = autopar.all_gather %[[SHARE]]
// CHECK-NEXT: %[[B:.*]] = autopar.group %[[A]]
// CHECK: autopar.group %[[B]], %[[W]]
// A device that moves the bytes of messages itself would compute no earlier.
// ALONE-LABEL: func.func @main
// ALONE: autopar.group %arg0
// ALONE: autopar.group %{{[0-9]+}} :
// ALONE: autopar.group %arg1
// ALONE: autopar.all_gather
module {
  autopar.mesh @mesh ["d" = 2]
  func.func @main(%x: tensor<1048576xf32>, %w: tensor<524288xf32>) -> tensor<1048576xf32> {
    %a = autopar.group %x : (tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>):
      %1 = autopar.unary exp %0 : tensor<1048576xf32>
      autopar.yield %1 : tensor<1048576xf32>
    }
    %b = autopar.group %a : (tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>):
      %1 = autopar.unary sqrt %0 : tensor<1048576xf32>
      autopar.yield %1 : tensor<1048576xf32>
    }
    %s = autopar.group %w : (tensor<524288xf32>) -> tensor<524288xf32> {
    ^bb0(%0: tensor<524288xf32>):
      %1 = autopar.unary tanh %0 : tensor<524288xf32>
      autopar.yield %1 : tensor<524288xf32>
    }
    %g = autopar.all_gather %s dim 0 over @mesh ["d"] : tensor<524288xf32> -> tensor<1048576xf32>
    %y = autopar.group %b, %g : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>, %1: tensor<1048576xf32>):
      %2 = autopar.binary add %0, %1 : tensor<1048576xf32>
      autopar.yield %2 : tensor<1048576xf32>
    }
    return %y : tensor<1048576xf32>
  }
}

// -----

// What an activation is made of has just been computed; a collective that stays keeps its queue. Shards that lie side by side are put in
// order where they are read.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[A:.*]] = autopar.group %arg0
// CHECK: %[[SUM:.*]] = autopar.all_reduce sum %[[A]]
// CHECK-NEXT: %[[W:.*]] = autopar.all_gather %arg1 dim 0 over @mesh ["d"] : tensor<1024x512xf32> -> tensor<2048x512xf32>
// CHECK-NEXT: %[[B:.*]] = autopar.group %[[SUM]]
// CHECK: %[[ALL:.*]] = autopar.all_gather %[[B]]
// CHECK: autopar.group %[[W]] : (tensor<2048x512xf32>) -> tensor<1024x1024xf32>
// CHECK: autopar.transpose {{.*}} permutation [1, 0, 2]
module {
  autopar.mesh @mesh ["d" = 2]
  func.func @main(%x: tensor<1024x1024xf32>, %w: tensor<1024x512xf32>) -> (tensor<1024x1024xf32>, tensor<2048x1024xf32>) {
    %a = autopar.group %x : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    ^bb0(%0: tensor<1024x1024xf32>):
      %1 = autopar.unary exp %0 : tensor<1024x1024xf32>
      autopar.yield %1 : tensor<1024x1024xf32>
    }
    %sum = autopar.all_reduce sum %a over @mesh ["d"] : tensor<1024x1024xf32>
    %b = autopar.group %sum : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    ^bb0(%0: tensor<1024x1024xf32>):
      %1 = autopar.unary sqrt %0 : tensor<1024x1024xf32>
      autopar.yield %1 : tensor<1024x1024xf32>
    }
    %all = autopar.all_gather %b dim 0 over @mesh ["d"] : tensor<1024x1024xf32> -> tensor<2048x1024xf32>
    %g = autopar.all_gather %w dim 1 over @mesh ["d"] : tensor<1024x512xf32> -> tensor<1024x1024xf32>
    %y = autopar.group %b, %g : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    ^bb0(%0: tensor<1024x1024xf32>, %1: tensor<1024x1024xf32>):
      %2 = autopar.binary add %0, %1 : tensor<1024x1024xf32>
      autopar.yield %2 : tensor<1024x1024xf32>
    }
    return %y, %all : tensor<1024x1024xf32>, tensor<2048x1024xf32>
  }
}

// -----

// A share of a parameter is rounded by the largest number of all: that is found ahead as well.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = autopar.group %arg0
// CHECK: %[[LARGEST:.*]] = autopar.group %arg1
// CHECK: %[[ALL:.*]] = autopar.all_reduce max %[[LARGEST]]
// CHECK: %[[SHARE:.*]] = autopar.group %arg1, %[[ALL]]
// CHECK: %[[W:.*]] = autopar.all_gather %[[SHARE]]
// CHECK: %[[B:.*]] = autopar.group %[[A]]
// CHECK: autopar.group %[[B]], %[[W]]
module {
  autopar.origin @w : tensor<1048576xf32>
  autopar.mesh @mesh ["d" = 2]
  func.func @main(%x: tensor<1048576xf32>, %w: tensor<524288xf32> {autopar.origin = @w}) -> tensor<1048576xf32> {
    %a = autopar.group %x : (tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>):
      %1 = autopar.unary exp %0 : tensor<1048576xf32>
      autopar.yield %1 : tensor<1048576xf32>
    }
    %b = autopar.group %a : (tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>):
      %1 = autopar.unary sqrt %0 : tensor<1048576xf32>
      autopar.yield %1 : tensor<1048576xf32>
    }
    %l = autopar.group %w : (tensor<524288xf32>) -> tensor<524288xf32> {
    ^bb0(%0: tensor<524288xf32>):
      %1 = autopar.unary abs %0 : tensor<524288xf32>
      autopar.yield %1 : tensor<524288xf32>
    }
    %all = autopar.all_reduce max %l over @mesh ["d"] : tensor<524288xf32>
    %s = autopar.group %w, %all : (tensor<524288xf32>, tensor<524288xf32>) -> tensor<524288xf32> {
    ^bb0(%0: tensor<524288xf32>, %1: tensor<524288xf32>):
      %2 = autopar.binary mul %0, %1 : tensor<524288xf32>
      autopar.yield %2 : tensor<524288xf32>
    }
    %g = autopar.all_gather %s dim 0 over @mesh ["d"] : tensor<524288xf32> -> tensor<1048576xf32>
    %y = autopar.group %b, %g : (tensor<1048576xf32>, tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%0: tensor<1048576xf32>, %1: tensor<1048576xf32>):
      %2 = autopar.binary add %0, %1 : tensor<1048576xf32>
      autopar.yield %2 : tensor<1048576xf32>
    }
    return %y : tensor<1048576xf32>
  }
}
