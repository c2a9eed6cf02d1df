// RUN: autopar-opt %s --split-input-file --autopar-balance-attention="cluster=presets:h100x3 target=cuda" | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-balance-attention="target=cuda" | FileCheck %s --check-prefix=UNKNOWN
// RUN: not autopar-opt %s --split-input-file --autopar-balance-attention="cluster=presets:none target=cuda" 2>&1 | FileCheck %s --check-prefix=ERROR

// Without a cluster there are no costs to decide by.
// UNKNOWN-NOT: autopar.permute
// ERROR: error: 'func.func' op cluster: {{.*}}none

// Of six chunks rank 0 has 0 and 1, and computes 0 and 5. What attention gave is where its gradient reads it; only the output and
// the gradient of the query go back. Gradients of keys and values add up.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[FIRST:.*]] = autopar.slice %arg0 starts [0, 0, 0, 0] steps [1, 1, 1, 1] {autopar.id = "a"} : tensor<1x8x8192x64xbf16> -> tensor<1x8x4096x64xbf16>
// CHECK-DAG: %[[EARLY:.*]] = autopar.permute %[[FIRST]] from [0, 2, 1] over @mesh ["c"] {autopar.id = "a"} : tensor<1x8x4096x64xbf16>
// CHECK-DAG: %[[SECOND:.*]] = autopar.slice %arg0 starts [0, 0, 4096, 0]
// CHECK-DAG: %[[LATE:.*]] = autopar.permute %[[SECOND]] from [2, 0, 1] over
// CHECK: %[[N0:.*]] = autopar.shard_index @mesh ["c"] numbers [0, 4, 2]
// CHECK: %[[O0:.*]], %[[L0:.*]] = autopar.attention %[[EARLY]], %arg1, %arg1 scale 1.250000e-01 causal shard %[[N0]] of 6 {autopar.id = "a"}
// CHECK: %[[N1:.*]] = autopar.shard_index @mesh ["c"] numbers [5, 1, 3]
// CHECK: %[[O1:.*]], %[[L1:.*]] = autopar.attention %[[LATE]], %arg1, %arg1 scale 1.250000e-01 causal shard %[[N1]] of 6
// CHECK: %[[B0:.*]] = autopar.permute %[[O0]] from [0, 2, 1]
// CHECK: %[[B1:.*]] = autopar.permute %[[O1]] from [1, 2, 0]
// CHECK: %[[OUT:.*]] = autopar.concat %[[B0]], %[[B1]] dim 2
// CHECK-NOT: autopar.slice %[[OUT]]
// CHECK: %[[G0:.*]] = autopar.permute {{.*}} from [0, 2, 1] over @mesh ["c"] {autopar.id = "a/vjp", autopar.phase = "backward"}
// CHECK: %[[G1:.*]] = autopar.permute {{.*}} from [2, 0, 1]
// CHECK: %[[Q0:.*]], %[[K0:.*]], %[[V0:.*]] = autopar.attention_grad %[[EARLY]], %arg1, %arg1, %[[O0]], %[[L0]], %[[G0]] scale 1.250000e-01 causal shard {{.*}} of 6
// CHECK: %[[Q1:.*]], %[[K1:.*]], %[[V1:.*]] = autopar.attention_grad %[[LATE]], %arg1, %arg1, %[[O1]], %[[L1]], %[[G1]] scale 1.250000e-01 causal shard {{.*}} of 6
// CHECK: autopar.permute %[[Q0]] from [0, 2, 1]
// CHECK: autopar.permute %[[Q1]] from [1, 2, 0]
// CHECK: autopar.concat
// CHECK: autopar.binary add %[[K0]], %[[K1]]
// CHECK: autopar.binary add %[[V0]], %[[V1]]
autopar.mesh @mesh ["c" = 3]
func.func @step(%q: tensor<1x8x8192x64xbf16>, %k: tensor<1x1x24576x64xbf16>, %g: tensor<1x8x8192x64xbf16>)
    -> (tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x1x24576x64xbf16>) {
  %i = autopar.shard_index @mesh ["c"] : tensor<i64>
  %o, %l = autopar.attention %q, %k, %k scale 1.25e-01 causal shard %i of 3 {autopar.id = "a"}
    : (tensor<1x8x8192x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<i64>) -> (tensor<1x8x8192x64xbf16>, tensor<1x8x8192xf32>)
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %k, %o, %l, %g scale 1.25e-01 causal shard %i of 3 {autopar.id = "a/vjp", autopar.phase = "backward"}
    : (tensor<1x8x8192x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x8x8192xf32>, tensor<1x8x8192x64xbf16>, tensor<i64>)
      -> (tensor<1x8x8192x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x1x24576x64xbf16>)
  return %o, %dq, %dk, %dv : tensor<1x8x8192x64xbf16>, tensor<1x8x8192x64xbf16>, tensor<1x1x24576x64xbf16>, tensor<1x1x24576x64xbf16>
}

// -----

// Of two ranks the first halves stay where they are.
// CHECK-LABEL: func.func @two
// CHECK: %[[FIRST:.*]] = autopar.slice %arg0 starts [0, 0, 0, 0]
// CHECK: %[[SECOND:.*]] = autopar.slice %arg0 starts [0, 0, 4096, 0]
// CHECK: %[[LATE:.*]] = autopar.permute %[[SECOND]] from [1, 0]
// CHECK: autopar.shard_index @mesh ["c"] numbers [0, 2]
// CHECK: %[[O0:.*]], %{{.*}} = autopar.attention %[[FIRST]], {{.*}} of 4
// CHECK: autopar.shard_index @mesh ["c"] numbers [3, 1]
// CHECK: %[[O1:.*]], %{{.*}} = autopar.attention %[[LATE]], {{.*}} of 4
// CHECK: %[[BACK:.*]] = autopar.permute %[[O1]] from [1, 0]
// CHECK: autopar.concat %[[O0]], %[[BACK]] dim 2
autopar.mesh @mesh ["c" = 2]
func.func @two(%q: tensor<1x8x8192x64xbf16>, %k: tensor<1x1x16384x64xbf16>) -> tensor<1x8x8192x64xbf16> {
  %i = autopar.shard_index @mesh ["c"] : tensor<i64>
  %o, %l = autopar.attention %q, %k, %k scale 1.25e-01 causal shard %i of 2
    : (tensor<1x8x8192x64xbf16>, tensor<1x1x16384x64xbf16>, tensor<1x1x16384x64xbf16>, tensor<i64>) -> (tensor<1x8x8192x64xbf16>, tensor<1x8x8192xf32>)
  return %o : tensor<1x8x8192x64xbf16>
}

// -----

// Few rows are computed before they are sent; an odd number of them has no halves; float32 is no call of the library on GPUs.
// CHECK-LABEL: func.func @stays
// CHECK-COUNT-3: autopar.attention {{.*}} of 3
// CHECK-NOT: autopar.permute
autopar.mesh @mesh ["c" = 3]
func.func @stays(%few: tensor<1x8x64x64xbf16>, %seen: tensor<1x1x192x64xbf16>, %odd: tensor<1x8x8191x64xbf16>, %k: tensor<1x1x24573x64xbf16>,
                 %wide: tensor<1x8x8192x64xf32>, %w: tensor<1x1x24576x64xf32>)
    -> (tensor<1x8x64x64xbf16>, tensor<1x8x8191x64xbf16>, tensor<1x8x8192x64xf32>) {
  %i = autopar.shard_index @mesh ["c"] : tensor<i64>
  %a, %l = autopar.attention %few, %seen, %seen scale 1.0 causal shard %i of 3
    : (tensor<1x8x64x64xbf16>, tensor<1x1x192x64xbf16>, tensor<1x1x192x64xbf16>, tensor<i64>) -> (tensor<1x8x64x64xbf16>, tensor<1x8x64xf32>)
  %b, %m = autopar.attention %odd, %k, %k scale 1.0 causal shard %i of 3
    : (tensor<1x8x8191x64xbf16>, tensor<1x1x24573x64xbf16>, tensor<1x1x24573x64xbf16>, tensor<i64>) -> (tensor<1x8x8191x64xbf16>, tensor<1x8x8191xf32>)
  %c, %n = autopar.attention %wide, %w, %w scale 1.0 causal shard %i of 3
    : (tensor<1x8x8192x64xf32>, tensor<1x1x24576x64xf32>, tensor<1x1x24576x64xf32>, tensor<i64>) -> (tensor<1x8x8192x64xf32>, tensor<1x8x8192xf32>)
  return %a, %b, %c : tensor<1x8x64x64xbf16>, tensor<1x8x8191x64xbf16>, tensor<1x8x8192x64xf32>
}
