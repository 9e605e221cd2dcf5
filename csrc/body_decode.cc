// SPDX-License-Identifier: Apache-2.0
// The statement tree of a Program: decoding, and the rules of its structure.
#include <cstring>
#include <utility>
#include <vector>

#include "decode.h"
#include "instruction.h"
#include "limits.inc"
#include "pieces.h"
#include "rows.h"
#include "stores.h"
#include "straight.h"

namespace mco {

namespace {

constexpr uint8_t kIf = 2;
constexpr size_t kSmallest = 6;  // bytes of a jump

struct Context {
  Reader& in;
  const Strings& strings;
  Program& p;
  StreamWriter& out;
};

// Where a statement list stands: how deep, and whether in a nosync region.
struct Place {
  int depth = 0;
  bool region = false;

  Place inside() const { return {depth + 1, region}; }
  Place inside_region() const { return {depth + 1, true}; }
};

void check_loc(const Context& c, uint32_t loc) {
  if (loc >= c.p.locations.size())
    fail("program bytes: location number %u; the table has %zu", loc, c.p.locations.size());
}

uint32_t read_register(const Context& c) {
  const uint32_t index = c.in.take<uint32_t>();
  if (index >= c.p.registers.size())
    fail("program bytes: register number %u; the table has %zu", index, c.p.registers.size());
  return index;
}

void read_instr(const Context& c, uint32_t loc) {
  const std::string& name = c.in.string(c.strings);
  const OpInfo* op = find_op(name);
  const unsigned tensors = c.in.take<uint8_t>(), args = c.in.take<uint8_t>(), attrs = c.in.take<uint8_t>();
  c.in.take<uint8_t>();
  check_counts(c.p, name, op, tensors, args, attrs, loc);
  Chunks& memory = c.p.stream.memory;
  Instr& instr = *memory.make<Instr>(1);
  instr.op = op;
  instr.loc = loc;
  instr.tensors = {memory.make<Operand>(tensors), tensors};
  instr.args = {memory.make<uint32_t>(args), args};
  instr.attrs = {memory.make<int64_t>(attrs), attrs};
  for (Operand& o : instr.tensors) o = read_operand(c.in, c.p);
  for (uint32_t& arg : instr.args) arg = read_root(c.p, c.in.take<uint32_t>());
  for (int64_t& attr : instr.attrs) attr = c.in.take<int64_t>();
  check_instr(c.p, instr, &memory);
  Step& s = c.out.add(kind_of(name), loc);
  s.instr = &instr;
  c.p.stream.has_barrier = c.p.stream.has_barrier || s.what == What::Barrier;
}

void read_statements(const Context& c, const Place& at, uint32_t count);
void read_statements(const Context& c, const Place& at) { read_statements(c, at, c.in.count(kSmallest)); }

void read_for(const Context& c, uint32_t loc, const Place& at) {
  const uint32_t reg = read_register(c);
  const uint32_t from = read_root(c.p, c.in.take<uint32_t>()), to = read_root(c.p, c.in.take<uint32_t>());
  if (is_float(c.p.exprs.dtype(from)) || is_float(c.p.exprs.dtype(to))) {
    fail("for: a bound is a float; accepted: integers [%s]", c.p.location(loc).c_str());
  }
  const bool blocks = c.in.take<uint8_t>() != 0;
  // It may lie in other loops and branches: every block walks them.
  const unsigned threads = c.in.take<uint8_t>();
  if (threads < 1 || threads > limits::kThreads) {
    fail("for: threads is %u; accepted: 1 to %lld [%s]", threads, (long long)limits::kThreads,
         c.p.location(loc).c_str());
  }
  if (blocks && c.p.stream.blocks != kNone) {
    fail("for: a second multi-core loop; accepted: one [%s]", c.p.location(loc).c_str());
  }
  const What what = blocks ? What::Blocks : What::Begin;
  const uint32_t begin = c.out.begin_loop(what, loc, reg, c.p.registers[reg].dtype, from, to, threads);
  read_statements(c, at.inside());
  c.out.end_loop(begin);
}

// An if with its elifs, which nest in the else: read in a loop, since there may be hundreds of them.
void read_chain(const Context& c, uint32_t loc, const Place& at) {
  std::vector<std::pair<uint32_t, uint32_t>> open;  // test and jump of each branch
  for (;;) {
    const uint32_t root = read_root(c.p, c.in.take<uint32_t>());
    const uint32_t test = c.out.begin_if(loc, root, c.p.exprs.dtype(root));
    read_statements(c, at.inside());
    open.emplace_back(test, c.out.begin_else(test));
    const uint32_t n = c.in.count(kSmallest);
    if (n != 1 || c.in.peek() != kIf) {
      read_statements(c, at.inside(), n);
      break;
    }
    if (open.size() == size_t(limits::kBranches)) {
      fail("program bytes: an if has more than %lld branches [%s]", (long long)limits::kBranches,
           c.p.location(loc).c_str());
    }
    c.in.take<uint8_t>();
    loc = c.in.take<uint32_t>();
    check_loc(c, loc);
  }
  for (; !open.empty(); open.pop_back()) c.out.end_if(open.back().first, open.back().second);
}

void read_region(const Context& c, uint32_t loc, const Place& at) {
  if (at.region) fail("nosync: regions do not nest [%s]", c.p.location(loc).c_str());
  c.out.add(What::NoSync, loc);
  read_statements(c, at.inside_region());
  c.out.add(What::Resync, loc);
}

const Operand* keep(const Context& c, const Operand& o) { return &(*c.p.stream.memory.make<Operand>(1) = o); }

void read_scalar(const Context& c, What what, uint32_t loc) {
  Step s;
  s.what = what;
  s.loc = loc;
  if (what != What::Store) {
    s.index = read_register(c);
    s.to = c.p.registers[s.index].dtype;
  }
  if (what != What::Assign) s.place = keep(c, read_operand(c.in, c.p));
  if (what != What::Load) {
    s.a = read_root(c.p, c.in.take<uint32_t>());
    s.from = c.p.exprs.dtype(s.a);
  }
  c.out.add(what, loc) = s;
}

void read_jump(const Context& c, uint32_t loc) {
  const uint8_t kind = c.in.take<uint8_t>();
  if (kind > 2) fail("program bytes: jump kind %u; accepted: 0 to 2", kind);
  if (kind == 2) {
    c.out.add(What::End, loc);
    return;
  }
  if (!c.out.in_loop()) {
    fail("%s: outside of a loop [%s]", kind == 0 ? "break" : "continue", c.p.location(loc).c_str());
  }
  kind == 0 ? c.out.leave_loop(loc) : c.out.next_round(loc);
}

// Alloc or Free.
void read_life(const Context& c, What what, uint32_t loc) {
  const uint32_t buffer = c.in.take<uint32_t>();
  if (buffer >= c.p.buffers.size())
    fail("program bytes: buffer number %u; the table has %zu", buffer, c.p.buffers.size());
  c.out.add(what, loc).index = buffer;
}

void read_statement(const Context& c, const Place& at) {
  const uint8_t kind = c.in.take<uint8_t>();
  const uint32_t loc = c.in.take<uint32_t>();
  check_loc(c, loc);
  switch (kind) {
    case 0:
      return read_instr(c, loc);
    case 1:
      return read_for(c, loc, at);
    case kIf:
      return read_chain(c, loc, at);
    case 3:
      return read_scalar(c, What::Assign, loc);
    case 4:
      return read_scalar(c, What::Load, loc);
    case 5:
      return read_scalar(c, What::Store, loc);
    case 6:
      return read_life(c, What::Alloc, loc);
    case 7:
      return read_jump(c, loc);
    case 8:
      return read_life(c, What::Free, loc);
    case 9:
      return read_region(c, loc, at);
    default:
      fail("program bytes: unknown statement kind %u with %zu bytes left", kind, c.in.left());
  }
}

void read_statements(const Context& c, const Place& at, uint32_t count) {
  if (at.depth > limits::kNesting) {
    fail("program bytes: statements nest deeper than %lld", (long long)limits::kNesting);
  }
  for (uint32_t i = 0; i < count; ++i) read_statement(c, at);
}

}  // namespace

void read_body(Reader& in, const Strings& strings, Program& p) {
  StreamWriter out(p.stream);
  read_statements(Context{in, strings, p, out}, Place());
  out.add(What::End, 0);
  p.stream.steps.shrink_to_fit();
  make_straight(p);
  make_pieces(p);
  join_stores(p);
  make_rows(p);
}

}  // namespace mco
