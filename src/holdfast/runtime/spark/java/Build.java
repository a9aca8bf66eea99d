import java.io.File;
import java.io.FileOutputStream;
import java.lang.reflect.Method;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;
import org.codehaus.commons.compiler.util.resource.FileResource;
import org.codehaus.commons.compiler.util.resource.MapResourceCreator;
import org.codehaus.commons.compiler.util.resource.Resource;
import org.codehaus.janino.ClassLoaderIClassLoader;
import org.codehaus.janino.Compiler;

/** Source files into a jar, by the compiler among Spark's jars, which runs this from source too. */
public class Build {
    /** The jar, then the source files. The same files and the same Spark give the same bytes. */
    public static void main(String[] args) throws Exception {
        Compiler compiler = new Compiler();
        compiler.setIClassLoader(
            new ClassLoaderIClassLoader(Thread.currentThread().getContextClassLoader()));
        compiler.setTargetVersion(8);
        compiler.setDebugLines(true);
        compiler.setDebugSource(true);
        TreeMap classes = new TreeMap();
        compiler.setClassFileCreator(new MapResourceCreator(classes));
        Resource[] sources = new Resource[args.length - 1];
        for (int i = 0; i < sources.length; i++) sources[i] = new FileResource(new File(args[i + 1]));
        compiler.compile(sources);
        JarOutputStream jar = new JarOutputStream(new FileOutputStream(args[0]));
        for (Iterator it = classes.entrySet().iterator(); it.hasNext();) {
            Map.Entry entry = (Map.Entry) it.next();
            if (!complete((String) entry.getKey(), (byte[]) entry.getValue())) continue;
            ZipEntry item = new ZipEntry((String) entry.getKey());
            item.setTime(0L);
            jar.putNextEntry(item);
            jar.write((byte[]) entry.getValue());
        }
        jar.close();
    }

    /** Whether a class may stand before one of Spark's of the same name: it has all its methods. */
    private static boolean complete(String file, byte[] made) {
        String name = file.substring(0, file.length() - ".class".length()).replace('/', '.');
        ClassLoader spark = Thread.currentThread().getContextClassLoader();
        try {
            Method[] theirs = spark.loadClass(name).getDeclaredMethods();
            Class ours = new Alone(spark).define(name, made);
            for (int i = 0; i < theirs.length; i++) {
                Method method = ours.getMethod(theirs[i].getName(), theirs[i].getParameterTypes());
                if (method.getReturnType() != theirs[i].getReturnType()) return false;
            }
            return true;
        } catch (ClassNotFoundException error) {
            return true; // it is ours alone
        } catch (NoSuchMethodException error) {
            return false;
        }
    }

    /** Has one class of its own. */
    static class Alone extends ClassLoader {
        Alone(ClassLoader parent) {
            super(parent);
        }

        Class define(String name, byte[] made) {
            return defineClass(name, made, 0, made.length);
        }
    }
}
