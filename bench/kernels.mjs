// Speed of matrix multiplication, and the measurements that chose the constants of the kernels:
// shapes of the innermost tile, and sizes of blocks. Figures are floating-point operations per
// second of CPU, so a busy machine lowers them less than wall time would; candidates are measured
// in turn, in one process. Needs WebAssembly with relaxed SIMD.
// Run: npm run bench -- kernels

import { setFlagsFromString } from "node:v8";

import { compileKernels, compileSource } from "./lib/compile-kernels.mjs";
import { cpuOf, machine, median, spread } from "./lib/measure.mjs";
import { Arena } from "../dist/learner/model/kernels.js";
import { instantiateKernels } from "../dist/learner/model/kernels.js";
import { loadKernels } from "../dist/learner/model/kernels.js";

const rounds = 9;
/** Operations of one measurement: about 10 ms. */
const workOfRound = 3e8;

// The first tier of V8's compiler is ten times slower, and on a busy machine the second one comes late.
setFlagsFromString("--no-liftoff");
const { build } = loadKernels();
console.log(`${machine()}; kernels: ${build}; GFLOP per second of CPU, median (least to most) of ${rounds}\n`);
await compareTiles();
await compareProducts();
await compareConstant("matrix.ts", "depthBlock", [128, 256, 384, 768], productJob(512, 768, 128));
await compareConstant("matrix.ts", "rowBlock", [16, 64, 256, 1024], productJob(2048, 128, 512));
await compareConstant("attention-blocks.ts", "blockRows", [16, 32, 48, 64, 96], attentionJob(512));

/** Tiles kept in registers: rows by vectors of 4 columns. */
async function compareTiles() {
  const shapes = [[1, 2], [2, 2], [4, 1], [8, 1], [2, 4], [4, 2], [1, 8], [3, 3], [5, 2], [6, 2], [4, 3]]; // prettier-ignore
  const jobs = {};
  for (const [rows, vectors] of shapes) {
    const bytes = await compileSource(tileSource(rows, vectors));
    jobs[`tile of ${rows} x ${4 * vectors}`] = tileJob(new WebAssembly.Module(bytes), rows, vectors);
  }
  report("Innermost tile, in a product of 240 x 128 x 480", await measure(jobs));
}

async function compareProducts() {
  for (const shape of [
    [2048, 128, 768],
    [2048, 384, 128],
    [512, 128, 2048],
    [64, 32, 1024],
    [64, 1024, 32],
    [32, 128, 768],
    [1, 128, 768],
  ]) {
    const jobs = {};
    for (const name of ["relaxed-simd", "simd"]) {
      const { module } = loadKernels(name);
      jobs[`${name}, rows times panels`] = productJob(...shape)(module);
      if (shape[0] >= 32) jobs[`${name}, transposed (with packing)`] = transposedJob(...shape)(module);
    }
    report(`Product of ${shape.join(" x ")}`, await measure(jobs));
  }
}

async function compareConstant(file, name, values, makeJob) {
  const pattern = new RegExp(`(const ${name}: i32 = )\\d+`);
  const jobs = {};
  for (const value of values) {
    const bytes = await compileKernels((changed, text) =>
      changed === file ? text.replace(pattern, `$1${value}`) : text,
    );
    jobs[`${name} = ${value}`] = makeJob(new WebAssembly.Module(bytes));
  }
  report(`${name} of kernels/${file}`, await measure(jobs));
}

function productJob(rows, depth, columns) {
  return (module) => {
    const { kernels, floats, pointers } = instance(module, [rows * depth, depth * columns, rows * columns]);
    const [a, panels, c] = pointers;
    randomize(floats);
    const run = () => kernels.multiply(rows, columns, depth, a, depth, panels, depth, c, columns, 0);
    return { run, work: 2 * rows * depth * columns };
  };
}

/** The gradient of a matrix: depth is the number of rows. */
function transposedJob(rows, depth, columns) {
  return (module) => {
    const sizes = [rows * columns, rows * depth, rows * (depth + 8), depth * columns, 1 << 16];
    const { kernels, floats, pointers } = instance(module, sizes);
    const [gradient, input, packed, target, scratch] = pointers;
    randomize(floats);
    const run = () => {
      kernels.packRows(input, depth, rows, depth, packed);
      kernels.multiplyTransposed(columns, depth, rows, gradient, columns, packed, rows, target, depth, scratch);
    };
    return { run, work: 2 * rows * depth * columns };
  };
}

/** Attention of one sequence with 4 heads of 32, forward and backward. */
function attentionJob(tokens) {
  return (module) => {
    const width = 128;
    const matrices = Array.from({ length: 12 }, () => (tokens + 8) * width);
    const { kernels, floats, integers, pointers } = instance(module, [...matrices, tokens, 1 << 18, 1 << 18, 1 << 18]);
    randomize(floats);
    const [q, k, kRows, v, vColumns, out, logSums, dOut, dq, dk, dv, unused, visible, scores, slopes, scratch] =
      pointers;
    for (let row = 0; row < tokens; row++) integers[visible / 4 + row] = row + 1;
    const shape = [tokens, visible, tokens, 0, 4, 2, 32];
    const run = () => {
      kernels.attend(q, k, v, unused, unused, out, logSums, ...shape, scores);
      const panels = [k, kRows, vColumns, unused, unused, unused];
      const gradients = [dq, dk, dv, dk, dv];
      kernels.attendBackward(q, ...panels, out, logSums, dOut, ...gradients, ...shape, scores, slopes, scratch);
    };
    // Two products forward and five backward, over half of the square.
    return { run, work: 7 * tokens * tokens * width };
  };
}

function tileJob(module, rows, vectors) {
  const [height, depth, width] = [240, 128, 480];
  const { kernels, floats, pointers } = instance(module, [height * depth, depth * width, height * width]);
  randomize(floats);
  // Only whole tiles: the remainder is excluded from both product and work.
  const [fullHeight, fullWidth] = [height - (height % rows), width - (width % (4 * vectors))];
  return {
    run: () => kernels.run(fullHeight, fullWidth, depth, ...pointers),
    work: 2 * fullHeight * depth * fullWidth,
  };
}

/** A product by tiles of one shape, as kernels/tiles.ts would write it. */
function tileSource(rows, vectors) {
  const cells = Array.from({ length: rows * vectors }, (_, cell) => [Math.floor(cell / vectors), cell % vectors]);
  const lines = (list) => list.join("\n");
  return `
    export function run(height: i32, width: i32, depth: i32, a: usize, panels: usize, c: usize): void {
      for (let column = 0; column < width; column += ${4 * vectors}) {
        for (let row = 0; row < height; row += ${rows}) {
          tile(depth, a + (usize(row * depth) << 2), usize(depth) << 2, panels + (usize(column * depth) << 2), c + (usize(row * width + column) << 2), usize(width) << 2);
        }
      }
    }
    function tile(depth: i32, a0: usize, step: usize, panel: usize, c: usize, cStep: usize): void {
      ${lines(cells.map(([row, vector]) => `let c${row}_${vector} = f32x4.splat(0);`))}
      ${lines(Array.from({ length: rows - 1 }, (_, row) => `let a${row + 1} = a${row} + step;`))}
      for (const end = panel + ${16 * vectors} * usize(depth); panel < end; panel += ${16 * vectors}) {
        ${lines(Array.from({ length: vectors }, (_, vector) => `const b${vector} = v128.load(panel, ${16 * vector});`))}
        let x = f32x4.splat(0);
        ${lines(cells.map(([row, vector]) => `${vector === 0 ? `x = v128.load_splat<f32>(a${row}); a${row} += 4;` : ""} c${row}_${vector} = f32x4.relaxed_madd(x, b${vector}, c${row}_${vector});`))}
      }
      ${lines(cells.map(([row, vector]) => `v128.store(c + ${row} * cStep, c${row}_${vector}, ${16 * vector});`))}
    }`;
}

function instance(module, sizes) {
  const { kernels, memory } = instantiateKernels(module);
  const arena = new Arena(memory);
  const pointers = sizes.map((size) => arena.allocate(size));
  const { floats, integers } = arena.seal();
  return { kernels, pointers, floats: floats.subarray(pointers[0] / 4), integers };
}

function randomize(floats) {
  for (let index = 0; index < floats.length; index++) floats[index] = Math.random() - 0.5;
}

/** GFLOP per second of CPU of each job, with the jobs interleaved. */
async function measure(jobs) {
  const rates = Object.fromEntries(Object.keys(jobs).map((name) => [name, []]));
  for (let round = -1; round < rounds; round++) {
    for (const [name, { run, work }] of Object.entries(jobs)) {
      const times = Math.ceil(workOfRound / work);
      const { cpuUs } = await cpuOf(() => {
        for (let time = 0; time < times; time++) run();
      });
      // The first round is for the compiler.
      if (round >= 0) rates[name].push((work * times) / cpuUs / 1000);
    }
  }
  return rates;
}

function report(title, rates) {
  console.log(title);
  const best = Math.max(...Object.values(rates).map(median));
  for (const [name, values] of Object.entries(rates)) {
    console.log(`  ${name.padEnd(44)}${spread(values)}${median(values) === best ? "  <" : ""}`);
  }
  console.log();
}
