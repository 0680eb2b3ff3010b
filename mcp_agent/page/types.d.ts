// The types of what the page keeps and of what its views are given, for the JSDoc comments of static/.

/** A shell session, as GET /api/sessions has it. */
interface Session {
  id: string;
  command: string;
  cwd: string;
  pid: number;
  owner: string;
  running: boolean;
  exit_code: number | null;
  signal: string | null;
  started_at: number;
  ended_at: number | null;
  output_bytes: number;
  kept_from: number;
  pty: boolean;
}

/** A line of the audit log: a call, which has a tool, or an event. `at` is set when it comes in. */
interface AuditLine {
  ts: string;
  at: number;
  seq: number;
  boot: string;
  tool?: string;
  req?: string;
  outcome?: string;
  ms?: number;
  bytes?: number;
  args?: Record<string, any>;
  client?: string;
  program?: string;
  transport?: string;
  box?: string;
  undo?: string;
  event?: string;
  by?: string;
  address?: string;
  path?: string;
}

type Effect = "read" | "write" | "execute";

interface BoardTool {
  name: string;
  description: string;
  effect: Effect;
  tokens: number;
  used: number;
}

interface BoardCategory {
  id: string;
  label: string;
  mounted: boolean;
  tools: BoardTool[];
}

interface BoardRule {
  id: string;
  patterns: string[];
  reason: string;
}

interface BoardProfile {
  id: string;
  label: string;
  description: string;
  enabled: boolean;
  shipped: boolean;
  builtin: boolean;
  effects: Record<Effect, boolean>;
  asks: { effects: Effect[]; categories: string[]; tools: string[]; rules: string[] };
  categories: Record<string, boolean>;
  /** Tools that are on by their own switch, and those that its callers see. */
  on: string[];
  visible: string[];
  tokens: number;
  deny: { paths: BoardRule[]; commands: BoardRule[] };
}

/** Every profile with every switch, as GET /api/switchboard has it. */
interface Board {
  path: string;
  active: string;
  pinned: boolean;
  problems: { pointer: string; message: string; severity: "error" | "warning" }[];
  effects: Effect[];
  presets: Record<string, string>;
  mounts: Record<string, { state: string; tools: number }>;
  categories: BoardCategory[];
  profiles: BoardProfile[];
}

/** A call that waits for the owner. */
interface Approval {
  id: string;
  box?: string;
  tool: string;
  title: string;
  effect: string;
  client: string;
  program: string;
  user: string;
  folder: string;
  command: string | null;
  diff: string | null;
  arguments: Record<string, unknown>;
  reasons: { profile: string; rule: string; text: string; matched: string }[];
  waiting: boolean;
  age_s: number;
  expires_in_s: number;
  always: { profile: string; text: string; pattern: string | null }[] | null;
}

interface PageState {
  connection: "connecting" | "live" | "lost" | "out";
  boot?: string;
  gateway?: string;
  board?: Board;
  sessions?: Session[];
  approvals?: Approval[];
  lines: AuditLine[];
}

interface Store {
  state: PageState;
  hold(): void;
  release(): void;
  watch(keys: (keyof PageState)[], paint: (keys: Set<keyof PageState>) => void): () => void;
  set<Key extends keyof PageState>(key: Key, value: PageState[Key]): void;
  addLines(lines: AuditLine[]): void;
}

interface DialogField {
  name: string;
  label: string;
  hint?: string;
  value?: string;
  required?: boolean;
  maxLength?: number;
  input?: HTMLElement;
}

/** What every view is given. */
interface App {
  store: Store;
  stream: any;
  say(text: string, kind?: "good" | "bad"): void;
  ask(options: {
    title: string;
    text?: string;
    fields?: DialogField[];
    action?: string;
    kind?: string;
  }): Promise<Record<string, string> | undefined>;
  copy(text: string): Promise<void>;
  attempt<Answer>(work: () => Promise<Answer>, done?: string): Promise<Answer | undefined>;
  watch(keys: (keyof PageState)[], paint: (keys: Set<keyof PageState>) => void): void;
  go(path: string): void;
  rest(): string[];
}
