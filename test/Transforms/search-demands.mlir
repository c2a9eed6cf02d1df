// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux2 constraints='mesh=a=2'" 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux2 constraints='stages=2'" 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux2 constraints='micro-batches=2'" 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: not autopar-opt %s --autopar-search="cluster=presets:cpux2 constraints='nosuch: stage 1'" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not autopar-opt %s --auto-shard="cluster=presets:cpux2 constraints='nosuch: stage 1'" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: autopar-opt %s --auto-shard="cluster=presets:cpux4 constraints='mesh=a=2,stages=2,micro-batches=2,schedule=gpipe,second: stage 1'" | FileCheck %s --check-prefix=TAKEN
// RUN: autopar-opt %s --auto-shard="cluster=presets:cpux2 mesh=a=2 constraints='mesh=a=2'" | FileCheck %s --check-prefix=SAME
// RUN: not autopar-opt %s --auto-shard="cluster=presets:cpux2 mesh=a=2 constraints='mesh=b=2'" 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not autopar-opt %s --auto-shard="cluster=presets:cpux2 constraints='offload=state'" 2>&1 | FileCheck %s --check-prefix=OFFLOAD
// RUN: autopar-opt %s --auto-shard="cluster=presets:cpux2 emit-plan=%t.json" -o /dev/null
// RUN: not autopar-opt %s --auto-shard="cluster=presets:cpux2 plan=%t.json constraints='w: [-, x]'" 2>&1 | FileCheck %s --check-prefix=PLANNED
// RUN: autopar-opt %s --auto-shard="cluster=presets:cpux2 plan=%t.json constraints='mesh=x=2,first: stage 0'" | FileCheck %s --check-prefix=FOLLOWED
// RUN: not autopar-opt %s --auto-shard="cluster=presets:cpux2 memory-limit=64 constraints='w: [-, -]'" 2>&1 | FileCheck %s --check-prefix=ROOM

// Demands are met or refused: the search meets those on shardings, the pipeline has options for most others.

// MESH: error: constraints "mesh={{[ab]}}=2" at character 1: mesh is decided before shardings are searched, by the option mesh
// STAGES: at character 1: stages is decided before shardings are searched, by autopar-cut-stages
// TIME: micro-batches is decided before shardings are searched, by autopar-split-micro-batches
// STAGE: the stage of "nosuch" is decided before shardings are searched, by autopar-cut-stages
// ONE: error: stages: constraints "nosuch: stage 1" at character 1: "nosuch" is on stage 1, which needs stages of at least 2
// PLANNED: error: stages: the plan "{{.*}}.json" says every sharding; expected no demand on shardings beside it, got "w: [-, x]"
// FOLLOWED: autopar.mesh @mesh ["x" = 2]
// OFFLOAD: offload is decided before shardings are searched, by autopar-compile
// TAKEN: autopar.mesh @{{.*}} ["a" = 2]
// TAKEN: autopar.mesh @{{.*}} ["a" = 2]
// TAKEN: autopar.schedule = "gpipe"
// TAKEN: autopar.micro_batch
// TAKEN: autopar.transfer {{.*}} to 1
// TAKEN: autopar.dot_general {{.*}}autopar.id = "second"
// SAME: autopar.mesh @mesh ["a" = 2]
// ROOM: error: no plan found: no choice fits into 64 bytes: {{.*}}; demanded is w: [-, -]; with 224 bytes a step takes about
autopar.origin @w : tensor<4x4xf32>
autopar.origin @v : tensor<4x4xf32>
func.func @main(%x: tensor<8x4xf32> {autopar.name = "x"}, %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w}, %v: tensor<4x4xf32> {autopar.name = "v", autopar.origin = @v}) -> tensor<8x4xf32> {
  %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "first"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = autopar.dot_general %0, %v contract [1] x [0] {autopar.id = "second"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
