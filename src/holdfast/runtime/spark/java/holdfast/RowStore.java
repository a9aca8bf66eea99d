package holdfast;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** Some megabytes of rows as Spark lays them out, with what is known of each boundary's groups. */
class RowStore {
    static final int GROUPS = 128;
    private static final int FIRST_PAGE = 1 << 16;
    private static final int PAGE = 1 << 20;
    private static final long FULL = 16L << 20;

    final int fields;
    private final int boundaries;
    private byte[][] pages = new byte[8][];
    private int used;
    private int top = -1;
    private long bytes;
    private int rows;
    private long[] places = new long[1024];
    private final byte[][] groups;
    private final int[][] counts;
    private final long[][] digests;

    RowStore(int fields, int boundaries) {
        this.fields = fields;
        this.boundaries = boundaries;
        this.groups = new byte[boundaries][1024];
        this.counts = new int[boundaries][GROUPS];
        this.digests = new long[boundaries][GROUPS];
    }

    void add(UnsafeRow row) {
        int size = row.getSizeInBytes();
        if (this.top < 0 || this.used + size > this.pages[this.top].length) addPage(size);
        byte[] page = this.pages[this.top];
        Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(),
            page, Platform.BYTE_ARRAY_OFFSET + this.used, size);
        int n = this.rows;
        if (n == this.places.length) grow();
        this.places[n] = ((long) this.top << 32) | this.used;
        int column = columns();
        long hash = row.getLong(this.fields - 1);
        for (int i = 0; i < this.boundaries; i++) {
            int group = row.getInt(column + i);
            this.groups[i][n] = (byte) group;
            this.counts[i][group]++;
            this.digests[i][group] += hash;
        }
        this.used += size;
        this.bytes += size;
        this.rows = n + 1;
    }

    private void addPage(int size) {
        this.top++;
        if (this.top == this.pages.length) {
            this.pages = (byte[][]) Arrays.copyOf(this.pages, 2 * this.top);
        }
        byte[] old = this.pages[this.top];
        if (old == null || old.length < size) {
            this.pages[this.top] = new byte[Math.max(size, this.top == 0 ? FIRST_PAGE : PAGE)];
        }
        this.used = 0;
    }

    private void grow() {
        int size = 2 * this.places.length;
        this.places = Arrays.copyOf(this.places, size);
        for (int i = 0; i < this.boundaries; i++) {
            this.groups[i] = Arrays.copyOf(this.groups[i], size);
        }
    }

    /** Columns of the rows proper. */
    int columns() {
        return this.fields - this.boundaries - 1;
    }

    boolean isFull() {
        return this.bytes >= FULL;
    }

    int rows() {
        return this.rows;
    }

    byte[][] pages() {
        return this.pages;
    }

    int count(int boundary, int group) {
        return this.counts[boundary][group];
    }

    long digest(int boundary, int group) {
        return this.digests[boundary][group];
    }

    /** Page and place of every row, by key group, in the order of their coming within one. */
    long[] sorted(int boundary) {
        int[] next = new int[GROUPS];
        for (int g = 1; g < GROUPS; g++) next[g] = next[g - 1] + this.counts[boundary][g - 1];
        long[] sorted = new long[this.rows];
        long[] places = this.places;
        byte[] keys = this.groups[boundary];
        for (int i = 0; i < sorted.length; i++) sorted[next[keys[i]]++] = places[i];
        return sorted;
    }

    void clear() {
        this.top = -1;
        this.used = this.rows = 0;
        this.bytes = 0L;
        for (int i = 0; i < this.boundaries; i++) {
            Arrays.fill(this.counts[i], 0);
            Arrays.fill(this.digests[i], 0L);
        }
    }
}
