// RUN: not autopar-opt %s --autopar-cut-stages="stages=4 cluster=presets:cpux3" 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 cluster=presets:cpux2 schedule=zigzag" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not autopar-opt %s --autopar-cut-stages="stages=4 meshes=2 cluster=presets:cpux2" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 mesh=data=1/data=1 cluster=presets:cpux3" 2>&1 | FileCheck %s --check-prefix=MESHES
// RUN: not autopar-opt %s --autopar-cut-stages="stages=4 meshes=2 schedule=interleaved cluster=presets:cpux3" 2>&1 | FileCheck %s --check-prefix=TURNS
// RUN: not autopar-opt %s --autopar-cut-stages="stages=4294967298 meshes=2 schedule=interleaved cluster=presets:cpux2" 2>&1 | FileCheck %s --check-prefix=WIDE
// RUN: not autopar-opt %s --autopar-cut-stages="stages=2 mesh=data=-1/data=5 cluster=presets:cpux4" 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// DEVICES: stages: 3 devices are too few for the meshes of 4 stages
// NAME: stages: there is no schedule 'zigzag'; there are gpipe, 1f1b, eager-1f1b, interleaved, zero-bubble, interleaved-zero-bubble, overlapped-1f1b, overlapped-interleaved
// CHUNKS: stages: schedule '1f1b': takes one stage per mesh, got 4 stages on 2 meshes; 'interleaved' takes several
// MESHES: stages: mesh 'data=1/data=1' gives 2 meshes with 2 devices together; expected 2 meshes with all 3
// TURNS: stages: 3 devices are not 2 equal meshes for stages to take turns on; give the meshes (data=1/data=2)
// WIDE: stages: schedule 'interleaved': 4294967298 stages with 1 micro-batches; expected a product of at most 16777216
// NEGATIVE: stages: mesh 'data=-1/data=5': axis 'data=-1' leaves the mesh no size from 1 to 4; expected axes such as data=2,tensor=2
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
