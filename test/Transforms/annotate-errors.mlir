// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-annotate

// expected-error @+1 {{has no plan to apply; run autopar-search first or give the option plan=FILE}}
module {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux4\", \"devices\": 4, \"meshes\": {\"m0\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}, \"m1\": {\"devices\": [2, 3], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"m0\", \"ops\": [\"a\"]}, {\"name\": \"s1\", \"mesh\": \"m1\", \"ops\": [\"b\"]}], \"schedule\": \"1f1b\", \"ops\": {}, \"shard\": {}}"} {
  // expected-error @+1 {{has 1 pipeline stages, the plan has 2; run autopar-cut-stages first}}
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{plan: mesh "m1" has its axes in another order than "m0"; expected one order for all stages}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux4\", \"devices\": 4, \"meshes\": {\"m0\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}, {\"name\": \"y\", \"size\": 1}]}, \"m1\": {\"devices\": [2, 3], \"axes\": [{\"name\": \"y\", \"size\": 2}, {\"name\": \"x\", \"size\": 1}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"m0\", \"ops\": [\"a\"]}, {\"name\": \"s1\", \"mesh\": \"m1\", \"ops\": [\"b\"]}], \"schedule\": \"1f1b\", \"ops\": {}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{plan: stage "s2" is on mesh "m1"; stages take turns, expected "m0"}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux4\", \"devices\": 4, \"meshes\": {\"m0\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}, \"m1\": {\"devices\": [2, 3], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"m0\", \"ops\": [\"a\"]}, {\"name\": \"s1\", \"mesh\": \"m1\", \"ops\": [\"b\"]}, {\"name\": \"s2\", \"mesh\": \"m1\", \"ops\": [\"c\"]}], \"schedule\": \"1f1b\", \"ops\": {}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = autopar.transfer %x to 2 : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{plan: recompute: names operation "b", which @main does not have}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"recompute\": [\"a\", \"a/reshard\", \"b\"], \"ops\": {}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = autopar.unary exp %x {autopar.id = "a"} : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"ops\": {}, \"shard\": {}}"} {
  // expected-error @+1 {{'autopar.mesh' op differs from the plan's mesh}}
  autopar.mesh @mesh ["t" = 2]
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"ops\": {\"a\": [[\"x\"]]}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{'autopar.softmax' op cannot take the planned strategy for "a": factor 0 of extent 8 needs replication}}
    %a = autopar.softmax %x dim 0 {autopar.id = "a"} : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"ops\": {}, \"shard\": {\"x\": [[\"x\"], []]}}"} {
  // expected-error @+1 {{'func.func' op plan: "x" has 2 dimensions, the value is 'tensor<8xf32>'}}
  func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{expected a function @main of one block to annotate}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"ops\": {}, \"shard\": {}}"} {
}

// -----

// Micro-batches are no axis of a plan.
// expected-error @+1 {{plan: ops.a.factors[0]: unknown axis 'time'; axes here: x}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"ops\": {\"a\": [[\"time\"]]}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = autopar.unary exp %x {autopar.id = "a"} : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{plan: shard names "y", which is no parameter, input or output:NAME of @main}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"m\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s\", \"mesh\": \"m\", \"ops\": []}], \"ops\": {}, \"shard\": {\"y\": [[\"x\"]]}}"} {
  func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{plan: stage s: names operation "ghost", which @main does not have; a plan goes with the model and the options (--bind, --train, --precision, ...) that it was made for}}
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"m\": {\"devices\": [0, 1], \"axes\": [{\"name\": \"x\", \"size\": 2}]}}, \"stages\": [{\"name\": \"s\", \"mesh\": \"m\", \"ops\": [\"ghost\"]}], \"ops\": {}, \"shard\": {}}"} {
  func.func @main(%x: tensor<8xf32> {autopar.name = "x"}) -> tensor<8xf32> {
    return %x : tensor<8xf32>
  }
}
